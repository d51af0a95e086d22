"""A rule of records that ends runs, resumed or not."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.optim.lr_scheduler import ReduceLROnPlateau

import tepui
from strategies import modest
from tepui import EarlyStopping, EpochRecord, tasks
from tepui.data import Arrays
from tepui.losses import MSE
from tepui.training.history import epochs_since_best
from training.cases import (
    StoppedError,
    assert_same_runs,
    fitted,
    images,
    numbers,
    stop_after,
)

VALUES = st.lists(st.integers(-8, 8).map(lambda number: number / 4), max_size=12)
ROUGH = {
    "optimizer": tepui.SGD(lr=2.0),
    "schedule": tepui.Constant(),
    "validation": images(30, seed=1),
    "epochs": 12,
}


@given(VALUES, st.sampled_from([0.0, 0.25, 1.0]))
@modest
def test_epochs_without_gain_are_those_that_torch_counts(values, min_delta):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    watch = ReduceLROnPlateau(
        optimizer, patience=99, threshold=min_delta, threshold_mode="abs"
    )
    optimizer.step()
    for value in values:
        watch.step(value)
    assert epochs_since_best(values, min_delta) == watch.num_bad_epochs


def record(epoch, **scores):
    plain = {"loss": (0.0,), "learning_rate": (0.1,), "validation_loss": ()}
    return EpochRecord(epoch, **plain | scores, seconds=1.0, samples_per_second=1.0)


@pytest.mark.parametrize(
    ("monitor", "values", "stops"),
    [
        ("loss", [(3.0, 1.0), (1.0, 2.0)], False),  # in the mean a gain
        ("loss", [(3.0, 1.0), (1.0, 3.0)], True),
        ("loss", [(3.0, None), (2.0, None)], False),  # one sat out
        ("validation_loss", [(1.0,), (2.0,)], True),
        ("validation_accuracy", [(0.5,), (0.6,)], False),  # higher is better
        ("validation_accuracy", [(0.5,), (0.4,)], True),
        ("validation_rmse", [(0.5,), (0.4,)], False),
    ],
)
def test_what_is_watched_is_the_mean_over_members(monitor, values, stops):
    history = [record(n, **{monitor: each}) for n, each in enumerate(values)]
    assert EarlyStopping(monitor, patience=1).stops(history) is stops


@pytest.mark.parametrize("monitor", ["validation_loss", "validation_accuracy", "loss"])
def test_a_run_ends_where_the_rule_says(monitor):
    rule = EarlyStopping(monitor, patience=2)
    whole = fitted(images(12), **ROUGH)
    expected = next(n for n in range(13) if rule.stops(whole.history[:n]))
    assert expected < 12
    run = fitted(images(12), early_stopping=rule, **ROUGH)
    assert (len(run.history), run.stopped_by) == (expected, "EarlyStopping")


@pytest.mark.parametrize("keep", ["last", "best"])
@pytest.mark.parametrize("checkpoint_every", [1, 2])
def test_interrupted_anywhere_it_ends_in_the_same_bits(
    tmp_path, keep, checkpoint_every
):
    how = {**ROUGH, "keep": keep, "early_stopping": EarlyStopping(patience=2)}
    how["checkpoint_every"] = checkpoint_every
    whole = fitted(images(12), **how, out=tmp_path / "whole")
    assert whole.stopped_by == "EarlyStopping"
    for epoch in range(len(whole.history)):
        out = tmp_path / str(epoch)
        with pytest.raises(StoppedError):
            fitted(images(12), **how, out=out, callbacks=[stop_after(epoch)])
        run = fitted(images(12), **how, out=out, resume=True)
        assert_same_runs(run, whole)
        assert run.stopped_by == "EarlyStopping"


def test_of_numbers_the_error_is_watched():
    x = numbers().inputs
    data = Arrays(x, x.sum(1, keepdim=True))
    rule = EarlyStopping("validation_rmse", patience=1, min_delta=9.0)
    how = {"loss": MSE(), "early_stopping": rule, "validation": 0.25, "epochs": 9}
    run = fitted(data, lambda: torch.nn.Linear(4, 1), **how)
    assert (len(run.history), run.stopped_by) == (2, "EarlyStopping")
    how["early_stopping"] = EarlyStopping("validation_accuracy")
    with pytest.raises(ValueError, match=r"monitor must be a score .*\(regression\)"):
        fitted(data, lambda: torch.nn.Linear(4, 1), **how)


def test_outputs_without_a_known_task_have_no_score_to_watch():
    for task in (None, tasks.Unknown()):
        EarlyStopping("loss").check_task(task)
        with pytest.raises(ValueError, match=r"monitor must be .*\(unknown\)"):
            EarlyStopping("validation_accuracy").check_task(task)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"patience": 0}, "patience must be positive, got 0"),
        ({"patience": 1.5}, "patience must be an integer, got 1.5"),
        ({"min_delta": -1.0}, "min_delta must be non-negative, got -1.0"),
        ({"monitor": "accuracy"}, "monitor must be one of .* got 'accuracy'"),
    ],
    ids=str,
)
def test_bad_rules_are_refused(how, message):
    with pytest.raises(ValueError, match=message):
        EarlyStopping(**how)


def test_validation_must_be_given_to_be_watched():
    with pytest.raises(ValueError, match="validation must be given to early_stopping"):
        fitted(images(), early_stopping=EarlyStopping())
    fitted(images(), early_stopping=EarlyStopping("loss"))
