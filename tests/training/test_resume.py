import json

import pytest
import torch

import tepui
from tepui.data import AugMix, HorizontalFlip, Mixup, RandomCrop, TrivialAugment
from tepui.losses import CrossEntropy
from tepui.methods import A2D, SAM, SED, DeepEnsemble, SharpBalance, SnapshotEnsemble
from training.cases import (
    Noisy,
    StoppedError,
    assert_same_bits,
    assert_same_runs,
    convnet,
    copied,
    files,
    fitted,
    images,
    linear,
    mlp,
    noisy_net,
    numbers,
    stop_after,
    untimed,
)

FULL = {"augment": (RandomCrop(1), HorizontalFlip()), "validation": 0.25}


def killed_and_resumed(data, out, *epochs, **how):
    """Stop after each of the epochs, before its checkpoint, and go on each time."""
    for epoch in epochs:
        with pytest.raises(StoppedError):
            fitted(data, out=out, resume=True, callbacks=[stop_after(epoch)], **how)
    return fitted(data, out=out, resume=True, **how)


@pytest.mark.parametrize(
    ("method", "optimizer", "factory"),
    [
        (DeepEnsemble(), tepui.SGD(lr=0.1, nesterov=True), noisy_net),
        (SAM(rho=0.1), tepui.AdamW(lr=0.01), noisy_net),
        (SAM(rho=0.1), tepui.SGD(lr=0.1, nesterov=True), convnet),
    ],
    ids=["plain", "AdamW", "convolutions"],
)
def test_resumed_equals_uninterrupted(tmp_path, method, optimizer, factory):
    how = {"method": method, "optimizer": optimizer, "factory": factory, "epochs": 4}
    how |= {"keep": "best", "schedule": tepui.Cosine(warmup=1.5), **FULL}
    whole = fitted(images(), out=tmp_path / "whole", **how)
    parts = killed_and_resumed(images(), tmp_path / "parts", 0, 1, 1, 3, **how)
    assert_same_runs(whole, parts)
    assert_same_bits(whole, fitted(images(), **how))


def unlabeled():
    data = images(10, seed=5)
    return tepui.data.Arrays(data.inputs, torch.full_like(data.targets, -1))


OPTIONS = {
    "policies": {"augment": (TrivialAugment(), RandomCrop(1), AugMix())},
    "policies of members": {"augment": [[Mixup(0.5)], [AugMix()]]},
    "consistency": {
        "augment": [RandomCrop(1), AugMix()],
        "loss": CrossEntropy(0.1, consistency=12),
    },
    "read": {"wrap": Noisy, "keep": "best", "validation": 0.25},
    "weighted": {"sample_weights": torch.tensor([0.0, 0.5, 2.0, 3.0]).repeat(6)},
    "average": {"method": SAM(rho=0.1), "average": 0.5},
    "average in turns": {"method": SED(active=2), "members": 3, "average": 0.5},
    "ema": {"method": SharpBalance(rho=0.1, switch_at=1), "ema": 0.9},
    "ema of all": {"method": SED(active=2, base=SAM(rho=0.1)), "ema": 0.9},
    "unlabeled": {"method": A2D(parallel=False, weight=0.01), "unlabeled": unlabeled()},
    "late": {"method": SAM(rho=0.3, start_at=2)},
    "late sets": {"method": SharpBalance(rho=0.3, before="plain", switch_at=2)},
    "pruned": {
        "method": SharpBalance(rho=0.2, switch_at=1),
        "prune": tepui.Prune(sparsity=0.7),
    },
    "parting": {"part_at": 2, "optimizer": tepui.AdamW(lr=0.01), "offload": True},
    "snapshots": {"method": SnapshotEnsemble(), "keep": "best", "validation": 0.25},
    "rare": {"checkpoint_every": 2},
}


@pytest.mark.parametrize("case", OPTIONS)
def test_every_option_is_taken_up_again(tmp_path, case):
    how = {"epochs": 4, **OPTIONS[case]}
    data = how.pop("wrap", lambda data: data)(images())
    parts = killed_and_resumed(data, tmp_path / "parts", 0, 2, 3, **how)
    assert_same_runs(fitted(data, out=tmp_path / "whole", **how), parts)


class Counting(torch.optim.SGD):
    """Keeps a plain number in its state, as many optimizers do."""

    def step(self, closure=None):
        for parameter in self.param_groups[0]["params"]:
            state = self.state[parameter]
            state["taken"] = state.get("taken", 0) + 1
            parameter.grad = parameter.grad / state["taken"]
        super().step(closure)


def test_numbers_in_the_state_of_an_optimizer_survive(tmp_path):
    def optimizer(parameters):
        return Counting(parameters, lr=0.1, momentum=0.9)

    how = {"factory": mlp, "epochs": 3, "optimizer": optimizer}
    whole = fitted(numbers(), **how)
    assert_same_runs(whole, killed_and_resumed(numbers(), tmp_path, 0, 1, **how))


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW])
def test_fused_updates_of_weights_in_channels_last_survive(tmp_path, kind):
    """They are silently wrong where a buffer lies otherwise than its parameter."""
    built = []

    def optimizer(parameters):
        extra = {"momentum": 0.9} if kind is torch.optim.SGD else {}
        built.append(kind(parameters, lr=0.01, fused=True, **extra))
        return built[-1]

    def factory():
        return convnet().to(memory_format=torch.channels_last)

    how = {"factory": factory, "epochs": 3, "optimizer": optimizer}
    whole = fitted(images(), **how)
    assert_same_runs(whole, killed_and_resumed(images(), tmp_path, 1, **how))
    state = built[-1].state
    weights = [p for p in state if p.ndim == 4 and not p.is_contiguous()]
    assert weights
    for parameter in weights:
        buffers = [b for b in state[parameter].values() if b.shape == parameter.shape]
        assert buffers
        assert all(b.stride() == parameter.stride() for b in buffers)


class Captured(torch.optim.SGD):
    """Reads the learning rates it was built with, as a captured graph does."""

    def __init__(self, parameters):
        groups = [
            {"params": [parameter], "lr": torch.tensor(0.1 / (1 + number))}
            for number, parameter in enumerate(parameters)
        ]
        super().__init__(groups)
        self.read = [group["lr"] for group in self.param_groups]

    def step(self, closure=None):
        for group, rate in zip(self.param_groups, self.read, strict=True):
            assert group["lr"] is rate
            for parameter in group["params"]:
                parameter.data.sub_(rate * parameter.grad)


def test_learning_rates_that_a_graph_reads_stay_the_same_tensors(tmp_path):
    how = {"factory": mlp, "epochs": 4, "optimizer": Captured}
    how["schedule"] = tepui.Cosine()
    whole = fitted(numbers(), **how)
    assert_same_runs(whole, killed_and_resumed(numbers(), tmp_path, 0, 2, **how))


@pytest.mark.parametrize("stops", [[0], [0, 0, 2], [3]], ids=str)
@pytest.mark.parametrize("every", [1, 2])
def test_metrics_hold_one_line_per_epoch(tmp_path, stops, every):
    how = {"epochs": 4, "checkpoint_every": every}
    run = killed_and_resumed(images(), tmp_path, *stops, **how)
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["epoch"] for row in rows] == [0, 1, 2, 3]
    assert [tuple(row["loss"]) for row in rows] == [r.loss for r in run.history]


def test_a_finished_run_trains_nothing_and_returns_the_same(tmp_path):
    how = {"epochs": 3, "keep": "best", "validation": 0.25, "out": tmp_path}
    first = fitted(images(), **how)
    before = files(tmp_path)
    ensemble_of_zeros = tepui.Ensemble.build(noisy_net, members=2, seed=3)
    for parameter in ensemble_of_zeros.parameters():
        parameter.data.zero_()
    again = tepui.fit(
        ensemble_of_zeros,
        images(),
        method=DeepEnsemble(),
        batch_size=8,
        device="cpu",
        resume=True,
        progress="none",
        callbacks=[stop_after(0), stop_after(1), stop_after(2)],
        **how,
    )
    assert again.ensemble is ensemble_of_zeros
    assert_same_runs(first, again)
    assert first.history == again.history
    assert files(tmp_path) == before


def test_killed_between_last_checkpoint_and_ensemble(tmp_path):
    how = {"epochs": 3, "keep": "best", "validation": 0.25, "out": tmp_path}
    first = fitted(images(), **how)
    (tmp_path / "ensemble.safetensors").unlink()
    again = fitted(images(), resume=True, callbacks=[stop_after(2)], **how)
    assert_same_runs(first, again)
    assert (tmp_path / "ensemble.safetensors").exists()


def test_a_resume_uses_the_threads_the_run_began_with(tmp_path):
    seen = []
    torch.set_num_threads(2)
    with pytest.raises(StoppedError):
        fitted(numbers(), linear, out=tmp_path, callbacks=[stop_after(0)])
    torch.set_num_threads(1)
    note = [lambda record: seen.append(torch.get_num_threads())]
    fitted(numbers(), linear, out=tmp_path, resume=True, callbacks=note)
    assert seen == [2, 2]
    assert torch.get_num_threads() == 1


def test_the_ensemble_given_may_have_other_weights(tmp_path):
    with pytest.raises(StoppedError):
        fitted(images(), out=tmp_path, callbacks=[stop_after(1)])
    ensemble = tepui.Ensemble.build(noisy_net, members=2, seed=3)
    start = copied(ensemble)
    for parameter in ensemble.parameters():
        parameter.data.fill_(7.0)
    run = tepui.fit(
        ensemble,
        images(),
        method=DeepEnsemble(),
        epochs=2,
        batch_size=8,
        device="cpu",
        out=tmp_path,
        resume=True,
        progress="none",
    )
    whole = fitted(images())
    assert_same_bits(run, whole)
    assert untimed(run.history) == untimed(whole.history)
    assert start.keys() == copied(ensemble).keys()
