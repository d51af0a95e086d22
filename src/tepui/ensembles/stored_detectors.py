"""Detectors of unfamiliar features in a file beside their ensemble."""

from pathlib import Path

from torch import nn

from tepui.core.checks import require
from tepui.core.storage import read_tensors, reading, write_tensors
from tepui.core.warning import warn
from tepui.ensembles.feature_detectors import FeatureDetectors
from tepui.modules.running import device_of
from tepui.modules.state import weights_digest

DETECTORS = "detectors.safetensors"
KIND = "detectors"


def write_detectors(
    folder: str | Path, detectors: FeatureDetectors | None, ensemble: nn.Module
) -> None:
    """Write detectors into the folder of their ensemble; replace those there.

    Those that were fitted for other weights are left out, with a warning.

    Args:
        folder: The folder of a run, or of a saved ensemble.
        detectors: What was fitted; None leaves none there.
        ensemble: What is saved there.
    """
    file = Path(folder) / DETECTORS
    if detectors is not None and detectors.fitted_for != weights_digest(ensemble):
        warn(
            "ensemble has other weights than those that its detectors of features were "
            "fitted for: they are not saved with it; fit them anew "
            "(FeatureDetectors.fit, tepui calibrate --detectors)"
        )
        detectors = None
    if detectors is None:
        file.unlink(missing_ok=True)
        return
    about = {"ensemble": detectors.fitted_for, "numbers": detectors.numbers()}
    write_tensors(file, KIND, detectors.tensors(), about)


def read_detectors(folder: str | Path, ensemble: nn.Module) -> FeatureDetectors | None:
    """Return the detectors that lie beside an ensemble, on its device.

    Args:
        folder: The folder of a run, or of a saved ensemble.
        ensemble: What was loaded from it.

    Returns:
        The detectors; None if there are none.

    Raises:
        ValueError: If the file is foreign or damaged, or its detectors were fitted for
            other weights.
    """
    file = Path(folder) / DETECTORS
    if not file.exists():
        return None
    tensors, about = read_tensors(file, KIND)
    digest = weights_digest(ensemble)
    rule = (
        "be fitted for the ensemble beside it (remove it; tepui calibrate --detectors "
        "fits others)"
    )
    fits = about.get("ensemble") == digest
    require(fits, str(file), rule, "those of other weights")
    device = device_of(ensemble)
    with reading(file, "detectors of features"):
        moved = {name: tensor.to(device) for name, tensor in tensors.items()}
        return FeatureDetectors.of({**moved, **about["numbers"]}, digest)
