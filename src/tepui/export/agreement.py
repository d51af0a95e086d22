"""How far an exported graph's answers are from those of the ensemble."""

from collections.abc import Mapping

import torch
from torch import Tensor

from tepui.core.checks import require


def differences(
    exported: Mapping[str, Tensor],
    expected: Mapping[str, Tensor],
    beyond: Tensor | None = None,
) -> dict[str, float]:
    """Return the largest difference of each output.

    Numbers are compared in units of the largest one expected, or of one if that is
    smaller. A label differs by as much as it is less probable, by the ensemble's own
    probabilities, than the one expected: what is equally probable is no mistake. Sets
    differ by how far a class that is in one of them alone lies from their limit, which
    ``beyond`` says.

    Example:
        >>> probs, labels = torch.tensor([[0.5, 0.5]]), torch.tensor([0])
        >>> expected = {"probs": probs, "labels": labels}
        >>> differences({"probs": probs + 0.25, "labels": labels + 1}, expected)
        {'probs': 0.25, 'labels': 0.0}
    """
    found = {}
    for name, wanted in expected.items():
        given = exported[name]
        rule = f"have the shape {tuple(wanted.shape)} of the ensemble's"
        fits = given.shape == wanted.shape
        require(fits, f"output {name!r}", rule, tuple(given.shape))
        if name == "labels":
            found[name] = _less_probable(given, wanted, expected["probs"])
        elif name == "sets":
            assert beyond is not None
            found[name] = float((beyond.abs() * (given != wanted)).max())
        else:
            unit = max(1.0, float(wanted.abs().max()))
            found[name] = float((given.double() - wanted.double()).abs().max()) / unit
    return found


def _less_probable(given: Tensor, wanted: Tensor, probs: Tensor) -> float:
    """Return by how much labels are less probable than others, at most."""
    if given.shape == probs.shape:  # yes or no of each label
        gaps = (2 * probs - 1).abs() * (given != wanted)
        return float(gaps.max())
    chosen, best = (probs.gather(1, label.unsqueeze(1)) for label in (given, wanted))
    return float((best - chosen).max())


def check_agreement(found: Mapping[str, float], tolerance: float) -> None:
    """Refuse a graph whose answers differ too much, NaN included."""
    for name, difference in found.items():
        rule = (
            f"differ from the ensemble's by at most {tolerance:g} (nothing was written)"
        )
        require(difference <= tolerance, f"output {name!r}", rule, difference)


def largest(parts: list[dict[str, float]]) -> dict[str, float]:
    """Return the largest difference of each output over several comparisons."""
    return {
        name: float(torch.tensor([part[name] for part in parts]).max())
        for name in parts[0]
    }
