"""What the logits of an evaluation are kept in: as they are read, or as one is told."""

from pathlib import Path

from tepui.evaluation.logit_runs import LogitRuns
from tepui.evaluation.stored_logits import LOGITS, TYPES, LogitType
from tepui.studies.given import EvaluationRequest
from tepui.studies.specifications import EvaluationSpec


def kept_in(spec: EvaluationRequest, otherwise: LogitType) -> LogitType:
    """Return the type in which the logits of an evaluation are to be kept.

    Args:
        spec: The evaluation.
        otherwise: The type of logits that nothing reads.
    """
    if isinstance(spec, EvaluationSpec) and spec.logits_read:
        return spec.logits_in
    return otherwise


def has_logits(folder: Path, spec: EvaluationSpec) -> bool:
    """Return whether a folder has logits as an evaluation has them read."""
    if not (folder / LOGITS).is_file():
        return False
    return LogitRuns.open(folder).array.dtype == TYPES[spec.logits_in]
