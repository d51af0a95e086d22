import pytest
import torch
from torch import nn

from tepui.models import MLP, ResNet18
from tepui.training.numerics import Numerics, numerics_of
from tepui.training.prepare import STEPS_WORTH_COMPILING, compiles
from training.cases import (
    StoppedError,
    assert_same_runs,
    convnet,
    fitted,
    images,
    stop_after,
)


def switches():
    return (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.backends.cudnn.benchmark,
        torch.get_float32_matmul_precision(),
        torch.backends.cudnn.allow_tf32,
        torch.get_num_threads(),
    )


@pytest.fixture(autouse=True)
def _restored():
    threads = torch.get_num_threads()
    yield
    torch.use_deterministic_algorithms(False)
    torch.set_float32_matmul_precision("highest")
    torch.set_num_threads(threads)


@pytest.mark.parametrize("how", [{}, {"callbacks": [stop_after(0)]}])
@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("precision", ["float32", "tf32", "bfloat16"])
def test_fit_restores_the_switches_of_torch(how, deterministic, precision):
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.set_float32_matmul_precision("high")
    torch.set_num_threads(1)
    before = switches()
    how = {"deterministic": deterministic, "precision": precision, **how}
    if "callbacks" in how:
        with pytest.raises(StoppedError):
            fitted(images(), **how)
    else:
        fitted(images(), **how)
    assert switches() == before


@pytest.mark.parametrize("deterministic", [False, True])
def test_switches_are_set_inside_the_run(deterministic):
    seen = []
    torch.set_num_threads(1)
    fitted(
        images(),
        deterministic=deterministic,
        callbacks=[lambda record: seen.append(switches())],
        epochs=1,
    )
    assert seen == [(deterministic, False, False, "highest", False, 1)]


def test_auto_is_float32_on_a_cpu_and_bfloat16_on_a_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert numerics_of("cpu", "auto", False).precision == "float32"
    assert numerics_of("cpu", "auto", False).autocast is None
    assert numerics_of("cuda", "auto", False).precision == "bfloat16"
    assert numerics_of("cuda", "auto", False).autocast is torch.bfloat16


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_the_autocast_of_the_surroundings_stays_outside(precision):
    alone = fitted(images(), convnet, precision=precision)
    with torch.autocast("cpu", torch.bfloat16):
        within = fitted(images(), convnet, precision=precision)
    assert_same_runs(within, alone)


def test_devices_that_are_not_there_are_named(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="device must name a device, got 'nowhere'"):
        numerics_of("nowhere", "auto", False)
    with pytest.raises(ValueError, match="torch sees no CUDA device, got 'cuda:1'"):
        numerics_of("cuda:1", "auto", False)


@pytest.mark.parametrize(
    ("asked", "device", "steps", "compiled"),
    [
        (None, "cuda", STEPS_WORTH_COMPILING, True),
        (None, "cuda", STEPS_WORTH_COMPILING - 1, False),
        (None, "cpu", STEPS_WORTH_COMPILING, False),
        (True, "cpu", 1, True),
        (False, "cuda", STEPS_WORTH_COMPILING, False),
    ],
)
def test_only_long_runs_on_a_gpu_are_compiled_unasked(asked, device, steps, compiled):
    numerics = Numerics(torch.device(device), "float32", False, 1)
    assert compiles(asked, numerics, steps, [nn.Linear(1, 1)]) == compiled


def test_models_with_kernels_of_their_own_are_compiled_only_if_asked():
    numerics = Numerics(torch.device("cuda"), "bfloat16", False, 1)
    fused, other = ResNet18(width=2), MLP(4)
    for modules, compiled in (([fused], False), ([fused, other], True)):
        assert compiles(None, numerics, STEPS_WORTH_COMPILING, modules) == compiled
    assert compiles(True, numerics, 1, [fused])
