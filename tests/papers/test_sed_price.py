"""SED's study at the paper's size: what a dry run says it takes."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tepui.core.extras import extra
from tepui.models.untrained import untrained
from tepui.papers.recipe import Order
from tepui.papers.sed import table2
from tepui.papers.sed.scales import STUDIES, deit3, deit3_tail
from tepui.studies import Job, Store
from tepui.studies.price import Pricing

GB = 10**9
PAPER = Order("paper", ())
BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "head_memory.py"
SAMPLES = {
    "imagenet_val": 50_000,
    "imagenet_a": 7_500,
    "imagenet_r": 30_000,
    "imagenet_c1": 15 * 50_000,
    "imagenet_c5": 15 * 50_000,
    "inaturalist": 10_000,
    "openimages_o": 17_632,
}


@pytest.fixture(scope="module")
def pricing(tmp_path_factory):
    """Neither images nor weights nor timm are there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TEPUI_DATA", str(tmp_path_factory.mktemp("empty")))
        yield Pricing(Store(tmp_path_factory.mktemp("store"), device="cpu"))


def test_fifty_heads_fit_a_common_machine(pricing):
    price = pricing.price(table2.RECIPE.plan(PAPER))
    assert price.unpriced == 0
    assert 1 * GB < price.device_bytes < 24 * GB
    assert 1 * GB < price.host_bytes < 8 * GB
    assert 0.1 < price.hours_on_h200 < 10


def test_disk_is_mostly_logits_of_two_bytes(pricing):
    """Three ensembles of fifty and three of five, in closed form."""
    jobs = table2.RECIPE.plan(PAPER)
    members = sum(len(job.trial.seeds) for job in jobs)
    assert members == 3 * 50 + 3 * 5
    logits = 2 * 1000 * members * sum(SAMPLES.values())
    features = (4 * 768 + 8) * (1_281_167 + sum(SAMPLES.values()))
    heads = [deit3_size() * len(job.trial.seeds) for job in jobs]
    expected = logits + features + 4 * 4 * sum(heads)  # result, checkpoint, AdamW's two
    assert pricing.price(jobs).disk_bytes == pytest.approx(expected, rel=1e-6)


def deit3_size() -> int:
    with untrained():
        return sum(
            p.numel() for p in deit3_tail(0, STUDIES["paper"].layers).parameters()
        )


def test_whole_logits_would_take_twice_the_disk(pricing):
    job = max(table2.RECIPE.plan(PAPER), key=lambda job: len(job.trial.seeds))
    (spec,) = job.evaluations
    whole = Job(job.trial, (replace(spec, logits_in="float32"),))
    extra_bytes = pricing.price([whole]).disk_bytes - pricing.price([job]).disk_bytes
    assert extra_bytes == 2 * 1000 * 50 * sum(SAMPLES.values())


def test_the_shape_is_that_of_the_published_model(monkeypatch):
    try:
        extra("timm", "vision")
    except ImportError as error:
        pytest.skip(str(error))
    monkeypatch.setattr("tepui.papers.sed.scales.are_weights_wanted", lambda: True)
    with untrained():
        theirs = deit3()
    monkeypatch.undo()
    with untrained():
        ours = deit3()
    sizes = [sum(p.numel() for p in model.parameters()) for model in (theirs, ours)]
    assert sizes[1] == pytest.approx(sizes[0], rel=1e-3)
    image = torch.zeros(1, 3, 224, 224)
    assert ours(image).shape == theirs(image).shape


@pytest.mark.slow
def test_a_scaled_down_study_takes_what_was_priced():
    sizes = ["--members", "20", "--samples", "5000", "--classes", "100"]
    command = [sys.executable, str(BENCHMARK), "--here", *sizes]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    memory, taken, disk, written = map(int, done.stdout.split())
    assert 0.3 * memory < taken < memory + 50 * 10**6
    assert disk == pytest.approx(written, rel=0.15)
