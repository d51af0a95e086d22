"""Which logits a store keeps, and in what; no score depends on it."""

from dataclasses import replace

import pytest
import torch

import study_cases
import tepui
from study_cases import EXAM, TRIAL
from tepui.data import Arrays
from tepui.evaluation.gallery import FILE as GALLERY
from tepui.methods import DeepEnsemble
from tepui.papers.sed.protocol import evaluation_spec
from tepui.papers.sed.scales import STUDIES
from tepui.studies import Job, Store, carry_out
from tepui.studies.jobs import merged

HALF = replace(EXAM, logits_in="float16", logits_read=True)


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    store = Store(tmp_path_factory.mktemp("full"), device="cpu")
    store.evaluation(TRIAL, EXAM)
    return store


def files(store):
    return sorted(store.path.rglob("clean.safetensors"))


def test_what_is_read_does_not_change_a_digest_and_its_type_does():
    assert EXAM.digest == replace(EXAM, logits_read=True).digest
    assert "logits_read" not in EXAM.about
    assert HALF.digest != EXAM.digest


def test_a_store_without_logits_has_the_same_scores(full, tmp_path):
    bare = Store(tmp_path, device="cpu", logits_in="none")
    assert bare.evaluation(TRIAL, EXAM) == full.evaluation(TRIAL, EXAM)
    assert files(full)
    assert not files(bare)
    assert bare.has(TRIAL, EXAM)


def test_logits_that_are_read_are_made_where_they_are_missing(full, tmp_path):
    store = Store(tmp_path, device="cpu", logits_in="none")
    store.evaluation(TRIAL, EXAM)
    read = replace(EXAM, logits_read=True)
    assert not store.has(TRIAL, read)
    expected = full.logits(TRIAL, EXAM)
    assert torch.equal(store.logits(TRIAL, EXAM).clean[0], expected.clean[0])
    assert store.has(TRIAL, read)


def test_logits_of_another_type_are_not_those_that_are_read(full, tmp_path):
    store = Store(tmp_path, device="cpu", logits_in="float16")
    store.evaluation(TRIAL, EXAM)
    assert not store.has(TRIAL, replace(EXAM, logits_read=True))
    expected = full.logits(TRIAL, EXAM).clean[0]
    assert torch.equal(store.logits(TRIAL, EXAM).clean[0], expected)
    rounded = store.logit_runs(TRIAL, HALF)
    assert torch.equal(next(rounded.read())[0], expected.half())
    assert len(files(store)) == 2


def test_a_job_keeps_what_any_of_its_readers_needs(tmp_path):
    store = Store(tmp_path, device="cpu", logits_in="none")
    read = replace(EXAM, logits_read=True)
    jobs = merged([Job(TRIAL, (EXAM,)), Job(TRIAL, (HALF, read))])
    assert jobs[0].evaluations == (EXAM, HALF)
    assert [spec.logits_read for spec in jobs[0].evaluations] == [True, True]
    carry_out(jobs, store)
    assert len(files(store)) == 2
    assert jobs[0].steps_left(store) == 0


def test_nothing_that_is_read_is_left_out():
    with pytest.raises(ValueError, match="logits_in must name a type where logits"):
        replace(EXAM, logits_in="none", logits_read=True)
    with pytest.raises(ValueError, match="logits_in must be one of"):
        Store(".", device="cpu", logits_in="int8")


@pytest.mark.parametrize(
    ("size", "kind"), [("paper", "float16"), ("small", "float32"), ("smoke", "float32")]
)
def test_heads_at_paper_size_answer_in_half_the_space(size, kind):
    spec = evaluation_spec(STUDIES[size], 0)
    assert (spec.logits_in, spec.logits_read) == (kind, True)
    assert spec.about["logits_in"] == kind
    assert "logits_read" not in spec.about


IMAGES = Arrays(torch.rand(24, 1, 8, 8), torch.arange(24) % 3)


def compared(out, **options):
    return study_cases.compared(
        [DeepEnsemble()],
        lambda: tepui.models.ConvNet(3, in_channels=1, width=2),
        IMAGES,
        IMAGES,
        members=2,
        ensembles=1,
        out=out,
        device="cpu",
        epochs=1,
        progress="none",
        **options,
    )


def total(logits, labels):
    return logits.sum()


def test_a_comparison_without_logits_shows_no_images(tmp_path):
    full, half, none = (
        compared(tmp_path / kind, logits_in=kind)
        for kind in ("float32", "float16", "none")
    )
    scores = [made.methods[0].ensembles[0].evaluation for made in (full, half, none)]
    assert scores[0] == scores[1] == scores[2]
    stored = "clean.safetensors"
    sizes = [len([*(tmp_path / k).rglob(stored)]) for k in ("float16", "none")]
    assert sizes == [1, 0]
    galleries = [len([*(tmp_path / k).rglob(GALLERY)]) for k in ("float16", "none")]
    assert galleries == [1, 0]
    compared(tmp_path / "none", logits_in="none", resume=True)


def test_metrics_of_ones_own_are_taken_anew_without_logits(tmp_path):
    how = {"logits_in": "none"}
    compared(tmp_path / "none", metrics={"total": total}, **how)
    found = compared(tmp_path / "none", resume=True, metrics={"total": ones}, **how)
    assert found.methods[0].ensembles[0].evaluation["clean"]["total"] == 1


def ones(logits, labels):
    return 1.0
