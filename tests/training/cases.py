"""Small data, models and runs that the tests of training and methods share."""

import os
import random
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import Dataset

import tepui
from tepui.core.storage import same_bits
from tepui.data import Arrays
from tepui.losses import cross_entropy
from tepui.methods import DeepEnsemble, MemberMethod
from tepui.training.passes import MemberPasses
from tepui.training.run_folder import RunFolder

CLASSES = 3


class StoppedError(Exception):
    """Raised by a callback to end a run where a kill would."""


def one_thread():
    """Compute on one thread, which is faster for models this small: a fixture."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def stop_after(epoch):
    def callback(record):
        if record.epoch == epoch:
            raise StoppedError

    return callback


def images(samples=24, size=4, seed=0):
    """Float images in [0, 1] that can be told apart by their brightness."""
    stream = torch.Generator().manual_seed(seed)
    labels = torch.arange(samples) % CLASSES
    noise = torch.rand(samples, 1, size, size, generator=stream)
    return Arrays((noise + labels[:, None, None, None]) / CLASSES, labels)


def numbers(samples=24, dtype=torch.float32, seed=0):
    """Feature vectors of length 4."""
    stream = torch.Generator().manual_seed(seed)
    labels = torch.arange(samples) % CLASSES
    noise = torch.randn(samples, 4, generator=stream, dtype=dtype)
    return Arrays(noise + labels[:, None], labels)


def pairs(samples=24):
    """Dict inputs for ``Named``."""
    x = numbers(samples)
    return Arrays({"left": x.inputs, "right": x.inputs.flip(0)}, x.targets)


class Plain(Dataset):
    """Hides that a data set is held in tensors."""

    def __init__(self, arrays):
        self.arrays = arrays

    def __len__(self):
        return len(self.arrays)

    def __getitem__(self, index):
        return self.arrays[index]


class Noisy(Plain):
    """Draws from every global generator, as transforms in the wild do."""

    def __getitem__(self, index):
        x, y = super().__getitem__(index)
        return x + torch.rand(()) + np.random.rand() + random.random(), y


class Named(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, CLASSES)

    def forward(self, left, right):
        return self.layer(left - right)


@final
@dataclass(frozen=True, kw_only=True)
class Lookahead(MemberMethod):
    """Goes back halfway to slow weights every few steps; they begin at the weights."""

    every: int = 2

    def start(self, member):
        slow = {
            f"slow/{n}": p.detach().clone() for n, p in enumerate(member.parameters)
        }
        return {"step": torch.zeros_like(member.progress), **slow}

    def gradient(self, member, batch):
        return member.gradient(batch)

    def after_update(self, member):
        member.state["step"].add_(1)
        share = 0.5 * (member.state["step"] % self.every == 0)
        with torch.no_grad():
            for number, parameter in enumerate(member.parameters):
                slow = member.state[f"slow/{number}"]
                step = share * (parameter - slow)
                slow.add_(step)
                parameter.add_((2 * share) * (slow - parameter))


def linear():
    return nn.Linear(4, CLASSES)


def mlp():
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, CLASSES))


def convnet():
    return tepui.models.ConvNet(num_classes=CLASSES, width=2)


def noisy_net():
    """BatchNorm and dropout, the two things that passes leave traces of."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(16, 8),
        nn.BatchNorm1d(8),
        nn.ReLU(),
        nn.Dropout(0.25),
        nn.Linear(8, CLASSES),
    )


def member_of(module, *, rate=0.1, samples=24, **how):
    """Return a member without an optimizer, as methods see it."""
    rate = torch.tensor(rate)
    how = {"loss": cross_entropy, "learning_rate": rate, "samples": samples, **how}
    return MemberPasses(module, **how)


def files(folder):
    """Return what lies in a folder, by path."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def body():
    """What heads share; a pass in train mode would change it, and draw."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layers = nn.Sequential(
            *(nn.Flatten(), nn.Linear(16, 6), nn.BatchNorm1d(6), nn.ReLU()),
            nn.Dropout(0.5),
        )
        layers(torch.randn(32, 16))
    return layers.eval()


def head():
    return nn.Sequential(
        *(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Dropout(0.25)),
        nn.Linear(5, CLASSES),
    )


def fitted(data, factory=noisy_net, *, members=2, seed=3, extractor=None, **how):
    """Train a fresh ensemble, of heads if there is an extractor; return the run."""
    if extractor is None:
        ensemble = tepui.Ensemble.build(factory, members=members, seed=seed)
    else:
        ensemble = tepui.Ensemble.on_features(extractor, factory, members, seed=seed)
    settings = {
        "method": DeepEnsemble(),
        "epochs": 2,
        "batch_size": 8,
        "device": "cpu",
        "progress": "none",
        **how,
    }
    return tepui.fit(ensemble, data, **settings)


def assert_same_bits(first, second):
    """Compare runs, modules or mappings of tensors to the last bit."""
    first, second = _tensors(first), _tensors(second)
    different = [
        name
        for name in first.keys() | second.keys()
        if not same_bits(_only(first, name), _only(second, name))
    ]
    assert not different


def assert_different(first, second):
    assert not same_bits(_tensors(first), _tensors(second))


def assert_same_runs(first, second):
    """Compare everything a run leaves except how long it took."""
    assert_same_bits(first, second)
    assert first.best_epochs == second.best_epochs
    assert untimed(first.history) == untimed(second.history)
    if first.path is not None and second.path is not None:
        for one, other in zip(
            checkpointed(first.path), checkpointed(second.path), strict=True
        ):
            assert_same_bits(one[0], other[0])
            assert one[1] == other[1]


CHECKPOINT = "checkpoint.json"


def checkpointed(folder):
    """Return tensors and document of every member in a run's last checkpoint."""
    checkpoint = RunFolder(folder).load_checkpoint()
    return [checkpoint.member(index) for index in range(len(checkpoint.digests))]


def untimed(history):
    return [
        (
            *(r.epoch, r.loss, r.joint_loss, r.learning_rate, r.validation_loss),
            *(r.validation_accuracy, r.validation_rmse),
        )
        for r in history
    ]


def global_states():
    """Return the state of every global generator, comparable with ``==``."""
    kind, keys, *rest = np.random.get_state()
    numpy_state = (kind, keys.tolist(), *rest)
    return random.getstate(), numpy_state, torch.get_rng_state().tolist()


def copied(module):
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}


def _tensors(value) -> dict[str, Tensor]:
    if isinstance(value, tepui.Run):
        value = value.ensemble
    return dict(value if isinstance(value, Mapping) else value.state_dict())


def _only(tensors, name):
    return {name: tensors[name]} if name in tensors else {}


class SignallingLoss:
    """Cross-entropy that ends the process in one of its calls."""

    def __init__(self, at=-1, number=signal.SIGTERM):
        self.at, self.number = at, number
        self.calls = 0

    def __call__(self, outputs, targets):
        if self.calls == self.at:
            os.kill(os.getpid(), self.number)
        self.calls += 1
        return F.cross_entropy(outputs, targets, reduction="none")


def interrupted_everywhere(tmp_path, method, calls, **how):
    """Stop a run in each of its passes; check that it resumes to the same bits."""
    whole = fitted(images(), method=method, loss=SignallingLoss(), **how)
    for at in range(calls):
        out = tmp_path / str(at)
        with pytest.raises(SystemExit):
            fitted(images(), method=method, loss=SignallingLoss(at), out=out, **how)
        again = {"loss": SignallingLoss(), "out": out, "resume": True, **how}
        assert_same_runs(whole, fitted(images(), method=method, **again))


needs_gpu = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
# By these a run on a GPU repeats to the bit.
ON_GPU = {
    "epochs": 2,
    "batch_size": 32,
    "precision": "float32",
    "device": "cuda",
    "deterministic": True,
    "progress": "none",
}


def state(run):
    """Return the weights of a run on the host."""
    return {k: v.detach().cpu() for k, v in run.ensemble.state_dict().items()}
