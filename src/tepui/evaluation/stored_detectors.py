"""Detectors of unfamiliar features in a file beside their ensemble."""

from pathlib import Path

from tepui.core.checks import require
from tepui.core.storage import read_tensors, reading, write_tensors
from tepui.ensembles.ensemble import Ensemble
from tepui.evaluation.feature_scores import FeatureDetectors
from tepui.evaluation.shards import weights_digest
from tepui.modules.running import device_of

DETECTORS = "detectors.safetensors"
KIND = "detectors"


def write_detectors(
    folder: str | Path, detectors: FeatureDetectors, ensemble: Ensemble
) -> Path:
    """Write detectors into the folder of their ensemble; replace those there.

    Args:
        folder: The folder of a run, or of a saved ensemble.
        detectors: What was fitted.
        ensemble: For whom; its weights are remembered by a hash.

    Returns:
        The file.
    """
    file = Path(folder) / DETECTORS
    about = {"ensemble": weights_digest(ensemble), "numbers": detectors.numbers()}
    write_tensors(file, KIND, detectors.tensors(), about)
    return file


def read_detectors(folder: str | Path, ensemble: Ensemble) -> FeatureDetectors | None:
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
    fits = about.get("ensemble") == weights_digest(ensemble)
    again = f"type tepui calibrate {folder} --detectors to fit it again"
    rule = f"be fitted for the ensemble beside it ({again})"
    require(fits, str(file), rule, "detectors of other weights")
    device = device_of(ensemble)
    with reading(file, "detectors of features"):
        moved = {name: tensor.to(device) for name, tensor in tensors.items()}
        return FeatureDetectors.of({**moved, **about["numbers"]})
