"""Strict float32 inside a block, and everything as it was after it."""

import pytest
import torch

from tepui.core.precision import strict_float32

CPU = torch.device("cpu")
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
def test_the_block_is_strict_and_leaves_all_as_it_was(surround, failing):
    surround()
    before = settings()
    seen = []

    def block():
        with strict_float32(CPU):
            seen.append(settings())
            if failing:
                raise KeyError("midway")

    if failing:
        with pytest.raises(KeyError, match="midway"):
            block()
    else:
        block()
    assert seen == [STRICT]
    assert settings() == before


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_autocast_is_off_inside_and_on_again_after(kind):
    x = torch.ones(2, 2)
    with torch.autocast("cpu", kind):
        with strict_float32(CPU):
            assert (x @ x).dtype == torch.float32
        assert (x @ x).dtype == kind
