"""A precision inside a block, and everything as it was after it."""

from contextlib import suppress

import pytest
import torch

from tepui.core.precision import computing_in, precision_on

CPU, GPU = torch.device("cpu"), torch.device("cuda")
NEWER = hasattr(torch.backends.cudnn, "conv")


def parts():
    cudnn, onednn = torch.backends.cudnn, torch.backends.mkldnn
    own = [cudnn.conv, cudnn.rnn, onednn.matmul, onednn.conv, onednn.rnn]
    return [torch.backends.cuda.matmul, *own] if NEWER else []


def answered(question):
    """Return an answer, None where torch finds two answers and gives none."""
    try:
        return question()
    except RuntimeError:
        return None


def settings():
    return (
        answered(torch.get_float32_matmul_precision),
        answered(lambda: torch.backends.cuda.matmul.allow_tf32),
        answered(lambda: torch.backends.cudnn.allow_tf32),
        *(part.fp32_precision for part in parts()),
    )


STRICT = ("highest", False, False, *("ieee" for _ in parts()))
ROUNDED = ("high", True, True, *("tf32" for _ in parts()))


@pytest.fixture(autouse=True)
def _restored():
    own = [part.fp32_precision for part in parts()]
    yield
    if NEWER:
        torch.backends.fp32_precision = "none"
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = True
    for part, precision in zip(parts(), own, strict=True):
        part.fp32_precision = precision


def set_nothing():
    """Leave torch's defaults."""


def set_high():
    torch.set_float32_matmul_precision("high")


def set_medium():
    torch.set_float32_matmul_precision("medium")
    torch.backends.cudnn.allow_tf32 = False


def allow_tf32():
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True


def set_everything_by_its_newer_name():
    torch.backends.fp32_precision = "tf32"


def set_one_part_by_its_newer_name():
    torch.backends.cudnn.conv.fp32_precision = "ieee"


OLDER = [set_nothing, set_high, set_medium, allow_tf32]
SURROUNDINGS = [
    *OLDER,
    *([set_everything_by_its_newer_name, set_one_part_by_its_newer_name] * NEWER),
]


@pytest.mark.parametrize("surround", SURROUNDINGS)
@pytest.mark.parametrize("failing", [False, True])
@pytest.mark.parametrize(
    ("device", "precision", "expected"),
    [
        (CPU, "float32", STRICT),
        (CPU, "tf32", STRICT),
        (GPU, "float32", STRICT),
        (GPU, "tf32", ROUNDED),
    ],
)
def test_a_block_rounds_as_asked_and_leaves_all_as_it_was(
    surround, failing, device, precision, expected
):
    surround()
    before = settings()
    with suppress(KeyError), computing_in(precision, device):
        assert settings() == expected
        if failing:
            raise KeyError("midway")
    assert settings() == before


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_autocast_is_off_inside_and_on_again_after(kind):
    x = torch.ones(2, 2)
    with torch.autocast("cpu", kind):
        with computing_in("float32", CPU):
            assert (x @ x).dtype == torch.float32
        assert (x @ x).dtype == kind


def test_a_cpu_computes_in_float32():
    x = torch.ones(2, 2)
    for precision in ("float32", "tf32", "bfloat16"):
        assert precision_on(CPU, precision) == "float32"
        assert precision_on(GPU, precision) == precision
        with computing_in(precision, CPU):
            assert (x @ x).dtype == torch.float32


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_each_precision_rounds_more_than_the_one_before():
    generator = torch.Generator().manual_seed(0)
    images, weights = (
        torch.randn(shape, generator=generator).cuda()
        for shape in ((64, 64, 16, 16), (64, 64, 3, 3))
    )
    exact = torch.nn.functional.conv2d(images.double(), weights.double())
    errors = []
    for precision in ("float32", "tf32", "bfloat16"):
        with computing_in(precision, GPU):
            found = torch.nn.functional.conv2d(images, weights)
        errors.append((found.double() - exact).abs().mean() / exact.abs().mean())
    assert errors[0] < 1e-5 < errors[1] < 1e-3 < errors[2] < 1e-1
