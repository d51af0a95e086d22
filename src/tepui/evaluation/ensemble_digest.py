"""Hashes by which an ensemble is known again, with what is done to its outputs."""

from tepui.data.identity import tensors_hash
from tepui.ensembles.ensemble import Ensemble


def ensemble_digest(ensemble: Ensemble) -> str:
    """Return a hash of all weights, and of what is done to outputs."""
    tensors = dict(ensemble.state_dict())
    calibration, conformity = ensemble.calibration, ensemble.conformity
    if ensemble.held_out_scores is not None:
        # As a file holds them, so that what was saved is known again.
        held = ensemble.held_out_scores
        tensors[f"held out {held.names}"] = held.scores
    if calibration is not None:
        about = f"{calibration.method} by {calibration.rule}"
        tensors |= {f"{about} {n}": t for n, t in calibration.tensors().items()}
    if conformity is not None:
        about = str(conformity.document())
        tensors |= {f"{about} {n}": t for n, t in conformity.tensors().items()}
    return tensors_hash(tensors)


def calibration_digest(ensemble: Ensemble) -> str | None:
    """Return a hash that tells what is done to outputs; None if nothing is."""
    if ensemble.calibration is None and ensemble.conformity is None:
        return None
    return ensemble_digest(ensemble)
