"""A handful of numbers about each sample, in the place of its logits."""

import torch
from torch import Tensor

from tepui.core.checks import require
from tepui.core.task import MULTI_LABEL, Task
from tepui.core.types import check_types
from tepui.ensembles.predicted import prediction_of
from tepui.metrics import Rule, Score, ood_scores
from tepui.metrics.chunks import Chunk, check_logits, chunks_of

COVERAGE = 0.9  # of the interval that predicted noise gives
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


def task_statistics(
    outputs: Tensor, targets: Tensor, task: Task, *, rule: Rule = "probability"
) -> dict[str, Tensor]:
    """Return what an ensemble says of each sample where that is no choice of a class.

    Args:
        outputs: Outputs of shape ``(members, samples, outputs, …)``.
        targets: One target per sample, which comes back as ``target``.
        task: What the outputs mean.
        rule: How members are combined; of no effect on numbers.

    Returns:
        By name, each of shape ``(samples, …)``: of labels and pixels ``prediction``,
        ``probability`` (of labels), ``confidence``, ``entropy`` and
        ``mutual_information``; of numbers ``mean``, ``std`` and ``epistemic``, where
        they are known ``aleatoric``, ``lower`` and ``upper`` bounds of 90 %, or
        ``quantiles`` with the levels last; of unknown outputs ``mean`` and ``spread``.
        ``epistemic`` and ``aleatoric`` of numbers are variances.

    Example:
        >>> numbers, task = torch.zeros(2, 5, 1), Task("regression")
        >>> sorted(task_statistics(numbers, torch.zeros(5), task))
        ['epistemic', 'mean', 'std', 'target']
    """
    out = prediction_of(outputs, task, rule=rule)
    found = {"target": targets}
    if task.name in ("classification", "multi_label"):
        found |= {"prediction": out.labels, "confidence": out.confidence}
        found |= {"entropy": out.total_uncertainty, "mutual_information": out.epistemic}
        return found | ({"probability": out.probs} if task == MULTI_LABEL else {})
    if task.name == "unknown":
        return found | {"mean": out.mean, "spread": out.spread}
    found["epistemic"] = out.epistemic
    if task.name == "quantiles":
        return found | {"quantiles": out.quantiles.movedim(0, -1)}
    found |= {"mean": out.mean, "std": out.std}
    if task.name == "gaussian":
        lower, upper = out.interval(COVERAGE)
        found |= {"aleatoric": out.aleatoric, "lower": lower, "upper": upper}
    return found


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
