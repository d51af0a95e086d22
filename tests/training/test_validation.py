import math
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F

import tepui
from tepui.data import Arrays, split
from tepui.methods import DeepEnsemble, MemberMethod
from training.cases import (
    CLASSES,
    Plain,
    assert_same_bits,
    assert_same_runs,
    copied,
    fitted,
    images,
    linear,
    noisy_net,
    numbers,
)

ROUGH = {"optimizer": tepui.SGD(lr=2.0), "schedule": tepui.Constant()}


def mean_loss(module, data):
    module.eval()
    with torch.no_grad():
        return float(F.cross_entropy(module(data.inputs), data.targets))


class Watcher:
    """A callback that keeps a copy of the ensemble after every epoch."""

    def __init__(self, ensemble):
        self.ensemble = ensemble
        self.copies = []
        self.records = []

    def __call__(self, record):
        self.records.append(record)
        self.copies.append([copied(member) for member in self.ensemble.members])


def watched(data, **how):
    ensemble = tepui.Ensemble.build(noisy_net, members=2, seed=3)
    watcher = Watcher(ensemble)
    run = tepui.fit(
        ensemble,
        data,
        method=DeepEnsemble(),
        callbacks=[watcher],
        batch_size=8,
        device="cpu",
        progress="none",
        **how,
    )
    return run, watcher


@pytest.mark.parametrize("wrap", [lambda a: a, Plain], ids=["tensors", "loaded"])
def test_validation_loss_is_the_mean_over_the_data_in_eval_mode(wrap):
    held_out = images(1100, seed=1)  # more than go through at once
    run = fitted(images(), validation=wrap(held_out), epochs=1)
    expected = [mean_loss(member, held_out) for member in run.ensemble.members]
    assert run.history[0].validation_loss == pytest.approx(expected, rel=1e-5)


def test_a_fraction_is_held_out_and_not_trained_on():
    data = images(40)
    train, held_out = split(data, 0.25, seed=0)
    by_fraction = fitted(data, validation=0.25)
    by_data = fitted(train, validation=held_out)
    assert_same_runs(by_fraction, by_data)
    assert len(by_fraction.history[0].validation_loss) == 2


def test_best_are_the_weights_of_each_members_best_epoch():
    how = {"epochs": 12, "validation": images(30, seed=1), **ROUGH}
    run, watcher = watched(images(12), keep="best", **how)
    losses = [record.validation_loss for record in run.history]
    for index, member in enumerate(run.ensemble.members):
        best = min(range(12), key=lambda epoch: losses[epoch][index])
        assert run.best_epochs[index] == best
        assert_same_bits(member, watcher.copies[best][index])
    assert any(epoch < 11 for epoch in run.best_epochs)


@dataclass(frozen=True, kw_only=True)
class Halved(MemberMethod):
    """Ends a run by halving the weights that it finds."""

    def gradient(self, member, batch):
        return member.gradient(batch)

    def finish(self, member, dataset):
        for parameter in member.parameters:
            parameter.data.mul_(0.5)


@pytest.mark.parametrize("keep", ["last", "best"])
def test_a_method_finishes_the_weights_that_are_kept(keep):
    how = {"epochs": 6, "validation": images(30, seed=1), "keep": keep, **ROUGH}
    plain = fitted(images(12), method=DeepEnsemble(), **how)
    halved = fitted(images(12), method=Halved(), **how)
    if keep == "best":
        assert any(epoch < 5 for epoch in plain.best_epochs)
    for one, other in zip(
        plain.ensemble.parameters(), halved.ensemble.parameters(), strict=True
    ):
        assert torch.equal(one / 2, other)


def test_an_infinite_validation_loss_stops_the_run(tmp_path):
    x = numbers(8).inputs * math.inf
    held_out = Plain(Arrays(x, torch.zeros(8, dtype=torch.int64)))
    message = "validation loss of member 0 must stay finite, got nan after epoch 0;"
    with pytest.raises(tepui.TrainingDiverged, match=message):
        fitted(numbers(), linear, validation=held_out, out=tmp_path)


def test_labels_of_validation_data_must_fit():
    bad = Arrays(numbers(4).inputs, torch.tensor([0, 1, 2, CLASSES]))
    with pytest.raises(ValueError, match=r"labels of validation must lie in"):
        fitted(numbers(), linear, validation=bad)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"keep": "best"}, 'validation must be given to keep the "best" weights'),
        ({"keep": "bets"}, "keep must be one of last, best, got 'bets' .*'best'"),
        ({"validation": 1.5}, r"validation must be a share in \(0, 1\), got 1.5"),
        (
            {"validation": 0.001},
            "fraction must leave at least one of 24 samples on each side",
        ),
        ({"validation": 3}, r"validation must be a share in \(0, 1\), got 3"),
    ],
    ids=str,
)
def test_bad_validation_is_refused(how, message):
    with pytest.raises(ValueError, match=message):
        fitted(images(), **how)


@pytest.mark.parametrize(
    ("held_out", "said"),
    [
        (Arrays(torch.zeros(4, 7), torch.arange(4) % 2), r"of shape \(7,\)"),
        (Arrays({"x": torch.zeros(4, 6)}, torch.arange(4) % 2), "keyword argument"),
        (Arrays(torch.zeros(4, 6).cfloat(), torch.arange(4) % 2), "ComplexFloat"),
    ],
    ids=["another size", "a mapping", "complex"],
)
@pytest.mark.parametrize("argument", ["validation", "unlabeled"])
@pytest.mark.parametrize("present", [False, True])
def test_data_of_another_shape_end_before_anything_begins(
    held_out, said, argument, present, tmp_path
):
    out, given = tmp_path / "run", {argument: held_out}
    if argument == "unlabeled":
        given["method"] = tepui.methods.DivDis()
    if present:
        out.mkdir()
    trained = tepui.Ensemble.build(lambda: torch.nn.Linear(6, 2), members=2)
    before = copied(trained)
    data = Arrays(torch.randn(8, 6), torch.arange(8) % 2)
    how = {"method": DeepEnsemble(), "epochs": 2, "progress": "none", "out": out}
    rule = f"^{argument} must fit the members, but: .*{said}"
    with pytest.raises(ValueError, match=rule):
        tepui.fit(trained, data, **how | given)
    assert out.exists() == present
    assert not present or not [*out.iterdir()]
    assert_same_bits(trained, before)


def test_validation_of_which_no_loss_can_be_taken_ends_before_anything_begins():
    held_out = Arrays(torch.zeros(4, 6, 6), torch.arange(4) % 2)
    data = Arrays(torch.randn(8, 6), torch.arange(8) % 2)
    rule = "^validation must fit the members, but: labels must be integers of shape"
    with pytest.raises(ValueError, match=rule):
        fitted(data, lambda: torch.nn.Linear(6, 2), validation=held_out)
