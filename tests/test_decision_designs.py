"""Arms branch where they differ, and a run that averages has two ends."""

import argparse
import importlib
from pathlib import Path

import numpy as np
import pytest
import torch

import tepui
from tepui.data import Arrays
from tepui.data.arrays import Normalize
from tepui.methods import SAM, DeepEnsemble, SharpBalance

ROOT = Path(__file__).parents[1]


@pytest.fixture
def scripts(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    names = ("decision_designs", "decision_runs", "branched_arms")
    return {name: importlib.import_module(name) for name in names}


@pytest.mark.parametrize(
    ("decision", "arm", "family", "until"),
    [
        ("002", "released", "sam", 20),
        ("002", "sam", "sam", 20),
        ("005", "random", "sam", 20),
        ("007", "deep_ensemble", "deep_ensemble", 170),
        ("007", "late_0.85_published_rho", "deep_ensemble", 170),
        ("007", "released_published_rho", "sam_published_rho", 100),
        ("007", "sam", "sam", 100),
        ("007_default", "late", "deep_ensemble", 100),
        ("007_default", "deep_ensemble", "deep_ensemble", 100),
        ("008", "late", "deep_ensemble", 20),
        ("009", "refreshed", "sam", 20),
        ("009", "early_refreshed", "sam", 4),
        ("012", "late_rho_0.1", "deep_ensemble", 20),
        ("012", "sam_rho_0.02", "sam_rho_0.02", 20),
    ],
)
def test_arms_leave_their_family_where_they_differ(
    scripts, decision, arm, family, until
):
    design = scripts["decision_designs"].DESIGNS[decision]
    assert design.first_part(arm, design.epochs) == (family, until)


def test_every_arm_begins_as_its_family_does(scripts):
    designs = scripts["decision_designs"]
    for design in designs.DESIGNS.values():
        for arm in design.arms:
            family, until = design.first_part(arm, design.epochs)
            method, alike = designs.METHODS[arm].prefix(design.epochs)
            assert method == designs.METHODS[family]
            assert until <= alike


def test_no_seed_is_used_by_two_decisions(scripts):
    designs = scripts["decision_designs"].DESIGNS.values()
    own = [design for design in designs if design.beside is None]
    of_folders = {(design.folder, block) for design in own for block in design.blocks}
    blocks = [block for _, block in of_folders]
    assert len(set(blocks)) == len(blocks)
    assert not set(blocks) & {0, 1, *range(7, 12)}  # of decisions 001 and 003


def test_arms_beside_a_decision_have_its_blocks_and_are_others(scripts):
    designs = scripts["decision_designs"].DESIGNS
    beside = [design for design in designs.values() if design.beside]
    assert beside
    for design in beside:
        first = designs[design.beside]
        shared = ("dataset", "blocks", "epochs", "width", "severities")
        for name in shared:
            assert getattr(design, name) == getattr(first, name)
        assert not set(design.arms) & set(first.arms)


def test_a_run_that_averages_is_examined_at_both_ends(scripts, tmp_path):
    job = scripts["branched_arms"].Job(tmp_path, "008", 32, "released", 40)
    names = [file.name for file in job.results]
    assert names == [
        "rules_block32_released.json",
        "rules_block32_released_averaged.json",
    ]
    job.results[0].touch()
    assert not job.done
    job.results[1].touch()
    assert job.done


@pytest.mark.parametrize("method", [DeepEnsemble(), SAM(), SharpBalance()], ids=repr)
def test_last_weights_are_those_of_a_run_without_averaging(scripts, method, tmp_path):
    data = tepui.data.Digits(train=False).subset(torch.arange(60))

    def trained(average):
        model = tepui.models.ConvNet
        ensemble = tepui.Ensemble.build(lambda: model(width=2), members=3, seed=0)
        how = {"epochs": 4, "batch_size": 20, "progress": "none"}
        out = tmp_path / str(average)
        return tepui.fit(ensemble, data, method=method, average=average, out=out, **how)

    plain, averaged = trained(None), trained(0.25)
    last = scripts["decision_runs"].last_weights(averaged)
    states = (plain.ensemble.state_dict(), last.state_dict())
    for name, tensor in states[0].items():
        assert torch.equal(tensor, states[1][name])
    mean = averaged.ensemble.state_dict()
    assert any(not torch.equal(mean[name], states[0][name]) for name in mean)


def test_random_scores_are_a_members_own_and_the_same_again(scripts):
    score = scripts["decision_designs"].random_scores
    data = tepui.data.Digits(train=False)
    ensemble = tepui.Ensemble.build(tepui.models.ConvNet, members=2, seed=0)
    one, other = (score(member, data) for member in ensemble.members)
    assert one.shape == other.shape == (len(data),)
    assert torch.equal(one, score(ensemble.members[0], data))
    assert abs(torch.corrcoef(torch.stack([one, other]))[0, 1]) < 0.2


def test_images_of_the_other_data_set_are_unfamiliar(scripts, tmp_path, monkeypatch):
    runs = scripts["decision_runs"]
    random = np.random.default_rng(0)
    pixels = {
        name: torch.from_numpy(random.integers(0, brightest, (20, 3, 32, 32), np.uint8))
        for name, brightest in (("cifar10", 256), ("cifar100", 64))
    }
    labels = torch.zeros(20, dtype=torch.int64)
    spreads = {"cifar10": Normalize((0.5,) * 3, (0.2,) * 3)}
    spreads["cifar100"] = Normalize((0.1,) * 3, (0.1,) * 3)
    known = {n: Arrays(images, labels, spreads[n]) for n, images in pixels.items()}
    monkeypatch.setattr(runs, "the_device", lambda: torch.device("cpu"))
    monkeypatch.setattr(runs, "images_of", lambda given, train: known[given.dataset])
    ensemble = tepui.Ensemble.build(
        lambda: tepui.models.ConvNet(in_channels=3), members=2, seed=0
    )
    logits = runs.dataset_logits(ensemble, known["cifar10"])[0]
    arguments = argparse.Namespace(dataset="cifar10", data=tmp_path, samples=None)
    found = runs.detected(ensemble, known["cifar10"], logits, arguments)
    others = known["cifar10"].like(pixels["cifar100"], labels)
    score = tepui.metrics.pds(runs.dataset_logits(ensemble, others)[0])
    expected = tepui.metrics.auroc(tepui.metrics.pds(logits), score)
    assert found["cifar100"]["pds"] == pytest.approx(float(expected))


def test_without_the_other_data_set_nothing_is_said(scripts, tmp_path):
    runs = scripts["decision_runs"]
    arguments = argparse.Namespace(dataset="cifar10", data=tmp_path, samples=None)
    assert runs.detected(None, None, None, arguments) == {}
