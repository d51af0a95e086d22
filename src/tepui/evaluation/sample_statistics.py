"""A handful of numbers about each sample, in the place of its logits."""

import torch
from torch import Tensor

from tepui.core.checks import require
from tepui.core.types import check_types
from tepui.metrics import Rule, Score, ood_scores
from tepui.metrics.chunks import Chunk, check_logits, chunks_of

UNCERTAINTIES: tuple[Score, ...] = ("pds", "entropy", "mutual_information")


def sample_statistics(
    logits: Tensor, labels: Tensor, *, rule: Rule = "probability"
) -> dict[str, Tensor]:
    """Return what an ensemble says of each sample, in a few numbers.

    Args:
        logits: Logits of shape ``(members, samples, classes)``.
        labels: Class indices of shape ``(samples,)``; -1 where there is no label.
        rule: How members are combined.

    Returns:
        By name, each of shape ``(samples,)``: ``label``; the ensemble's
        ``prediction`` and its probability, ``confidence``; ``label_probability``, the
        mean probability of the label over members, NaN without one; ``pds``,
        ``entropy`` and ``mutual_information``, see :func:`tepui.metrics.ood_scores`.

    Example:
        >>> logits = torch.tensor([[[0.0, 9.0]], [[9.0, 0.0]]])
        >>> found = sample_statistics(logits, torch.tensor([1]))
        >>> found["label_probability"], found["entropy"]
        (tensor([0.5000]), tensor([0.6931]))
    """
    check_types(sample_statistics, locals())
    check_logits(logits, rule=rule)
    classes, fits = logits.shape[-1], labels.shape == (logits.shape[1],)
    whole = not (labels.is_floating_point() or labels.is_complex())
    fits = fits and whole and bool((labels < classes).all())
    wanted = f"be one class index below {classes} per sample, or negative without one"
    require(fits, "labels", wanted, f"{labels.dtype} of shape {tuple(labels.shape)}")
    parts = [_of_chunk(chunk, rule) for chunk in chunks_of(logits, labels)]
    joined = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    return joined | ood_scores(logits, UNCERTAINTIES)


def _of_chunk(chunk: Chunk, rule: Rule) -> dict[str, Tensor]:
    confidence, prediction = chunk.ensemble_top(rule)
    index = chunk.labels.clamp(min=0).unsqueeze(1)
    probability = chunk.ensemble_probs("probability").gather(1, index)[:, 0]
    return {
        "label": chunk.labels,
        "prediction": prediction,
        "confidence": confidence,
        "label_probability": probability.where(chunk.labels >= 0, torch.nan),
    }
