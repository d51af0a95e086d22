"""Trials that begin alike are trained once until they part."""

from collections import Counter
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from study_cases import EXAM, TRIAL
from tepui.methods import GSAM, SAM, DeepEnsemble, SharpBalance, SnapshotEnsemble
from tepui.modules.pruning import Prune
from tepui.studies import store as store_module
from tepui.studies.job import Job
from tepui.studies.jobs import carry_out, merged, with_beginnings
from tepui.studies.shared_prefixes import (
    beginning,
    distinct_epochs,
    shared_beginnings,
    stages,
)
from tepui.studies.store import Store
from training.cases import assert_same_runs

EPOCHS = 8


def member_epochs(trials):
    return sum(members for members, _ in distinct_epochs(trials))


class Scaled(nn.Module):
    """A network without layers that can be pruned."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(10))

    def forward(self, x):
        return x.flatten(1)[:, :10] * self.scale


def trial(method):
    return TRIAL.trained_with(method=method, epochs=EPOCHS)


def shared(*methods):
    """Return the epochs that each method shares, by position."""
    trials = [trial(method) for method in methods]
    epochs = shared_beginnings(trials)
    return [epochs.get(each.digest, ()) for each in trials]


@pytest.mark.parametrize(
    ("method", "simpler", "epochs"),
    [
        (SharpBalance(rho=0.1, before="sam"), SAM(rho=0.1), 4),
        (SharpBalance.paper(rho=0.1, switch_at=3), SAM(rho=0.1), 3),
        (
            SharpBalance(rho=0.1, before="sam", base=GSAM(alpha=0.2)),
            GSAM(rho=0.1, alpha=0.2),
            4,
        ),
        (SharpBalance.released(rho=0.1), SAM(rho=0.1, update_statistics=True), 5),
        (SharpBalance(), DeepEnsemble(), 4),
        (SAM(start_at=0.75), DeepEnsemble(), 6),
        (SAM(), SAM(), 8),
        (DeepEnsemble(), DeepEnsemble(), 8),
    ],
)
def test_what_a_method_is_at_first(method, simpler, epochs):
    assert stages(trial(method)) == [(trial(simpler), epochs)]


@pytest.mark.parametrize(
    ("method", "prune_at", "simpler", "whole", "pruned"),
    [
        (SAM(), 0.5, SAM(), 4, 8),
        (SAM(start_at=6), 0.5, DeepEnsemble(), 4, 6),
        (SAM(start_at=4), 0.5, DeepEnsemble(), 4, None),
        (SAM(start_at=2), 0.5, DeepEnsemble(), 2, None),
        (SAM(start_at=2), 0.0, DeepEnsemble(), None, 2),
        (SAM(), 0.0, SAM(), None, 8),
    ],
)
def test_members_are_not_pruned_at_first(method, prune_at, simpler, whole, pruned):
    prune = Prune(prune_at=prune_at)
    first, then = trial(simpler), trial(simpler).trained_with(prune=prune)
    expected = [(first, whole)] if whole else []
    expected += [(then, pruned)] if pruned else []
    assert stages(trial(method).trained_with(prune=prune)) == expected


def sparse(method, sparsity, prune_at=0.5):
    return trial(method).trained_with(prune=Prune(sparsity=sparsity, prune_at=prune_at))


SPARSITIES = [trial(SAM(rho=0.1)), *(sparse(SAM(rho=0.1), s) for s in (0.5, 0.9))]
LATER = [DeepEnsemble(), SharpBalance(rho=0.1), SAM(start_at=6)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trials", "shared", "epochs"),
    [
        (SPARSITIES, [(4,)] * 3, 4 + 3 * 4),
        ([sparse(m, 0.5, 0.0) for m in LATER], [(4, 6), (4,), (4, 6)], 8 + 4 + 2),
        ([sparse(m, 0.5, 0.25) for m in LATER], [(2, 4, 6), (2, 4), (2, 4, 6)], 14),
        ([sparse(m, 0.5, 0.5) for m in LATER], [(4, 6), (4,), (4, 6)], 14),
        (
            [sparse(m, s, 0.25) for m in LATER[:2] for s in (0.5, 0.9)],
            [(2, 4)] * 4,
            2 + 2 * (2 + 4 + 4),
        ),
    ],
)
def test_what_is_pruned_shares_what_comes_before_and_after(
    tmp_path, monkeypatch, trials, shared, epochs
):
    found = shared_beginnings(trials)
    assert [found[each.digest] for each in trials] == shared
    assert member_epochs(trials) == len(TRIAL.seeds) * epochs
    whole = Store(tmp_path / "whole", device="cpu")
    alone = [whole.run(each) for each in trials]
    counts = trained_epochs(monkeypatch)
    store = Store(tmp_path / "shared", device="cpu")
    carry_out([Job(each) for each in trials], store)
    assert sum(counts.values()) == epochs
    for each, run in zip(trials, alone, strict=True):
        assert_same_runs(store.run(each), run)


PARTING = [*LATER, SAM(start_at=2), SAM(rho=0.1), SharpBalance(rho=0.1, before="sam")]
PRUNED = [
    None,
    *(Prune(sparsity=s, prune_at=n / 8) for s in (0.5, 0.9) for n in (0, 3)),
]
PRUNED += [Prune(sparsity=0.5, prune_at=n / 8) for n in (2, 4, 7)]
TRIALS = [trial(m).trained_with(prune=prune) for m in PARTING for prune in PRUNED]


@pytest.mark.slow
@given(st.lists(st.sampled_from(TRIALS), min_size=1, unique_by=lambda t: t.digest))
def test_an_epoch_is_trained_once_for_all_that_are_the_same_until_its_end(trials):
    """The naive twin names every epoch by the simplest trial it could be of."""
    named = {
        (beginning(each, epoch + 1).digest, epoch)
        for each in trials
        for epoch in range(EPOCHS)
    }
    assert member_epochs(trials) == len(TRIAL.seeds) * len(named)
    for each in trials:
        ends = shared_beginnings(trials).get(each.digest, ())
        assert list(ends) == sorted({*ends} - {0})


@pytest.mark.filterwarnings("ignore:members")  # they have no random weights
@pytest.mark.parametrize("prune", [Prune(sparsity=(0.1, 0.2, 0.3)), Prune()])
def test_what_cannot_be_pruned_is_refused_before_its_beginning_is_trained(
    tmp_path, prune
):
    dense = trial(DeepEnsemble())
    if prune == Prune():
        dense = replace(dense, model=Scaled)
    jobs = [Job(dense.trained_with(prune=prune)), Job(dense)]
    pruned, _ = with_beginnings(jobs)
    with pytest.raises(ValueError, match=r"one value per member|linear or conv"):
        Store(tmp_path).run(pruned.trial, beginnings=pruned.beginnings)
    assert not list(tmp_path.rglob("metrics.jsonl"))


def test_all_that_is_shared_is_trained_once_and_nothing_else():
    late = [SAM(start_at=epoch) for epoch in (2, 4, 6)]
    assert shared(DeepEnsemble(), *late) == [(2, 4, 6), (2,), (2, 4), (2, 4, 6)]
    assert shared(*late) == [(2,), (2, 4), (2, 4)]
    after_sam = SharpBalance(rho=0.1, before="sam")
    assert shared(SAM(rho=0.1), after_sam) == [(4,), (4,)]
    rules = [after_sam, SharpBalance.paper(rho=0.1)]
    assert shared(*rules, SAM(rho=0.1)) == [(4,), (4,), (4,)]


def test_what_differs_from_the_first_epoch_on_shares_nothing():
    assert shared(SAM(rho=0.1), SharpBalance(rho=0.2, before="sam")) == [(), ()]
    assert shared(DeepEnsemble(), SAM()) == [(), ()]
    assert shared(DeepEnsemble(), SharpBalance(switch_at=0)) == [(), ()]
    assert shared(SharpBalance(rho=0.1)) == [()]


METHODS = [
    SAM(rho=0.1),
    SharpBalance(rho=0.1, before="sam"),
    SharpBalance.paper(rho=0.1),
    DeepEnsemble(),
    SharpBalance(rho=0.1),
    SAM(start_at=6),
]
JOBS = [Job(trial(method), (EXAM,)) for method in METHODS]


def test_what_members_share_counts_once(tmp_path):
    members, late = len(TRIAL.seeds), trial(SAM(start_at=5))
    plain = trial(DeepEnsemble())
    parting = [each.trained_with(part_at=3) for each in (late, plain)]
    assert member_epochs(parting) == 3 + members * (2 + 3 + 3)
    successive = trial(SnapshotEnsemble())
    assert member_epochs([successive]) == EPOCHS
    steps, job = [], Job(parting[1], (EXAM,))
    store = Store(tmp_path, device="cpu")
    assert job.steps_left(store) == 3 + members * (EPOCHS - 3 + 1)
    carry_out([job], store, advance=steps.append)
    assert sum(steps) == 3 + members * (EPOCHS - 3 + 1)


def trained_epochs(monkeypatch):
    """Count the epochs that are trained, by the simple name of the method."""
    counts = Counter()
    train = store_module.train

    def counting(ensemble, data, spec, execution, *, callbacks=(), **how):
        def count(record):
            counts[type(spec.method).__name__] += 1

        callbacks = [*callbacks, count]
        return train(ensemble, data, spec, execution, callbacks=callbacks, **how)

    monkeypatch.setattr(store_module, "train", counting)
    return counts


@pytest.mark.slow
def test_a_study_equals_trials_one_by_one_and_trains_no_epoch_twice(
    tmp_path, monkeypatch
):
    whole = Store(tmp_path / "whole", device="cpu")
    alone = [(whole.run(job.trial), whole.evaluation(job.trial, EXAM)) for job in JOBS]
    counts, steps = trained_epochs(monkeypatch), []
    store = Store(tmp_path / "shared", device="cpu")
    left = sum(job.steps_left(store) for job in JOBS)
    carry_out(JOBS, store, advance=steps.append)
    assert counts == {"SAM": 4 + 4 + 2, "SharpBalance": 4 + 4 + 4, "DeepEnsemble": 8}
    assert sum(steps) == left
    for job, (run, evaluation) in zip(JOBS, alone, strict=True):
        assert_same_runs(store.run(job.trial), run)
        assert store.evaluation(job.trial, EXAM) == evaluation
    carry_out(JOBS, store)
    assert sum(counts.values()) == 30
    members = len(TRIAL.seeds)
    assert member_epochs([job.trial for job in JOBS]) == members * 30
    assert member_epochs([JOBS[0].trial]) == members * EPOCHS


def test_a_study_that_was_stopped_uses_the_beginnings_that_are_there(
    tmp_path, monkeypatch
):
    counts, store = trained_epochs(monkeypatch), Store(tmp_path, device="cpu")
    sam, balanced, *_ = with_beginnings(merged(JOBS))
    store.run(sam.trial, beginnings=sam.beginnings)
    assert counts == {"SAM": EPOCHS}
    carry_out(JOBS[:2], store)
    assert counts == {"SAM": EPOCHS, "SharpBalance": 4}
    assert store.is_trained(balanced.trial)
