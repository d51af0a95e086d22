"""What a run refuses before anything is spent: data, members, and settings that clash.

Training goes through :func:`asked_for` and :func:`check_run`. Whoever trains several
methods can ask them of all of these first.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from tepui.core.checks import UNLABELED, class_indices, require
from tepui.core.members import for_member
from tepui.core.new_gradients import is_sharded
from tepui.core.warning import warn, warn_of_probabilities
from tepui.data.arrays import Batch, Inputs
from tepui.data.augment import (
    Augmentation,
    ByteAugmentation,
    HorizontalFlip,
    PerMember,
    RandomCrop,
    RandomResizedCrop,
    check_kind,
    check_levels,
)
from tepui.data.augmentation_policies import (
    AugMix,
    AutoAugment,
    RandAugment,
    TrivialAugment,
)
from tepui.data.labels import checked_targets, class_names, same_classes
from tepui.data.loading import as_arrays, at_rows, length, split, split_rows, targets_of
from tepui.data.mixing import CutMix, Mixing
from tepui.data.preparation import preparation_of
from tepui.data.stored import StoredData
from tepui.data.table import Table
from tepui.ensembles.ensemble import Ensemble, check_seeds
from tepui.losses import CrossEntropy, Loss, balanced_weights
from tepui.losses.classification import BALANCED
from tepui.methods.base import ExchangingMethod
from tepui.methods.coupled import CoupledMethod
from tepui.modules.pruning import check_prunable
from tepui.modules.running import device_of, evaluating, forward, refusal_named
from tepui.modules.state import structure_digest
from tepui.tasks import task_of
from tepui.training.batches import steps_per_epoch
from tepui.training.exchange import FEWEST_SAMPLES, Exchange
from tepui.training.spec import ExecutionSpec, TrainingSpec

MOVING = (
    *(AugMix, AutoAugment, HorizontalFlip, RandAugment, RandomCrop),
    *(RandomResizedCrop, TrivialAugment),
)


class RunData(NamedTuple):
    """The data of a run."""

    train: Dataset[Any]  # what members learn from
    held_out: Dataset[Any] | None  # what they are validated on, if anything
    unlabeled: Dataset[Any] | None  # what they disagree on, if the method asks for it
    weights: Tensor | None = None  # factors on the losses of what they learn from


def asked_for(
    ensemble: Ensemble,
    dataset: Dataset[Any],
    spec: TrainingSpec,
    execution: ExecutionSpec,
    validation: Dataset[Any] | float | None = None,
    unlabeled: Dataset[Any] | None = None,
    sample_weights: Tensor | None = None,
    out: object = None,
) -> tuple[RunData, TrainingSpec]:
    """Return the parts of the data, and the loss in numbers, of what goes together."""
    _check_settings(spec, execution, validation, out)
    check_seeds(ensemble.seeds, len(ensemble))
    # Their gradients would be zero without a word.
    whole = not any(map(is_sharded, ensemble.parameters()))
    rule = "be whole; what fully_shard divides needs a loop with tepui.optim.SAM"
    require(whole, "members", rule, "divided ones")
    rule = "be False for heads, which one extractor serves at the same time"
    alone = ensemble.extractor is None or not execution.offload
    require(alone, "offload", rule, execution.offload)
    _check_unlabeled(spec, unlabeled)
    if isinstance(spec.method, CoupledMethod):
        spec.method.check_members(len(ensemble))
    data = _divide(dataset, validation, unlabeled, sample_weights)
    loss = _balanced(spec.loss, data.train, ensemble)
    return data, spec if loss is spec.loss else replace(spec, loss=loss)


def _check_settings(
    spec: TrainingSpec, execution: ExecutionSpec, validation: object, out: object
) -> None:
    """Check that the two specifications go together."""
    rule = 'be given to keep the "best" weights'
    require(spec.keep == "last" or validation is not None, "validation", rule, None)
    watched = spec.early_stopping is not None and spec.early_stopping.validates
    rule = "be given to early_stopping, which watches it"
    require(not watched or validation is not None, "validation", rule, None)
    method, ranks = spec.method, execution.data_parallel
    coupled, name = isinstance(method, CoupledMethod), type(method).__name__
    rule = f"be False with {name}, whose members meet inside the loss"
    require(not (execution.offload and coupled), "offload", rule, execution.offload)
    rule = f"be 1 with {name}, whose members meet or whose batches change their shapes"
    shared = method.fixed_shapes and not coupled
    require(ranks == 1 or shared, "data_parallel", rule, ranks)
    rule = "be given with stop_after, so that the run can be continued"
    require(execution.stop_after is None or out is not None, "out", rule, out)


def _check_unlabeled(spec: TrainingSpec, unlabeled: Dataset[Any] | None) -> None:
    wanted, name = spec.method.needs_unlabeled, type(spec.method).__name__
    rule = f"be None for {name}, which uses no such data"
    require(wanted or unlabeled is None, "unlabeled", rule, type(unlabeled).__name__)
    rule = f"be a data set for {name}, whose members disagree on it"
    require(not wanted or unlabeled is not None, "unlabeled", rule, None)


def _divide(
    dataset: Dataset[Any],
    validation: Dataset[Any] | float | None,
    unlabeled: Dataset[Any] | None,
    weights: Tensor | None,
) -> RunData:
    """Return the data of a run; what is held out is the same for all members."""
    samples = length(dataset)
    if weights is not None:
        _check_weights(weights, samples)
    if isinstance(validation, float | int):
        require(0 < validation < 1, "validation", "be a share in (0, 1)", validation)
        if weights is not None:
            weights = weights[split_rows(samples, validation, seed=0)[0]]
        return RunData(*divided(dataset, validation), unlabeled, weights)
    if validation is not None:
        length(validation, "validation")
        if isinstance(dataset, Table) and (known := preparation_of(dataset)):
            known.check_table(validation, "validation")
    return RunData(dataset, validation, unlabeled, weights)


def divided(
    dataset: Dataset[Any], validation: float
) -> tuple[Dataset[Any], Dataset[Any]]:
    """Return what is trained on and the share that is held out, which no seed moves."""
    return split(as_arrays(dataset) or dataset, validation, seed=0)


def _check_weights(weights: Tensor, samples: int) -> None:
    """Refuse weights that are not one factor per sample, some of them positive."""
    rule = f"hold one number per sample ({samples})"
    numbers = weights.shape == (samples,) and not weights.is_complex()
    require(numbers, "sample_weights", rule, f"shape {tuple(weights.shape)}")
    rule = "be finite, not negative, and positive for some sample"
    lowest, highest = float(weights.min()), float(weights.max())
    fits = bool(torch.isfinite(weights).all()) and lowest >= 0 and highest > 0
    require(fits, "sample_weights", rule, f"numbers from {lowest:g} to {highest:g}")


def _balanced(loss: Loss, data: Dataset[Any], ensemble: Ensemble) -> Loss:
    """Return a loss with numbers in the place of the word ``"balanced"``."""
    if not isinstance(loss, CrossEntropy) or loss.class_weights != BALANCED:
        return loss
    labels, name = targets_of(data), "class_weights"
    known = labels is not None and not labels.is_floating_point()
    require(known, name, "be numbers but for labels held in memory", BALANCED)
    assert labels is not None
    modules = [ensemble.members[0]]
    (classes,) = output_sizes(modules, few_of(data, modules), loss)
    class_indices(labels, classes)
    absent = absent_classes(labels, classes, class_names(data))
    require(not absent, name, f"be numbers, since none has {absent}", BALANCED)
    return replace(loss, class_weights=balanced_weights(labels, classes))


def absent_classes(labels: Tensor, classes: int, names: Sequence[str]) -> str:
    """Return the first class that no label has; "" if there is none.

    Example:
        >>> absent_classes(torch.tensor([0, 2]), 3, ("cat", "dog", "cow"))
        "class 1 ('dog')"
    """
    present = {*labels[labels != UNLABELED].tolist()}
    first = next((n for n in range(classes) if n not in present), None)
    if first is None:
        return ""
    return f"class {first}" + (f" ({names[first]!r})" if first < len(names) else "")


def absent_remark(
    targets: Tensor | None, classes: int | None, names: Sequence[str] = ()
) -> str | None:
    """Return which classes up to the last label have no sample, in words.

    Args:
        targets: Labels of the training data; None if they are not known beforehand.
        classes: How many classes there are; None where targets are no classes.
        names: Of the classes, if they have some.

    Returns:
        A remark with what to do; None where there is nothing to say.

    Example:
        >>> absent_remark(torch.tensor([0, 2]), 3, ("cat", "dog", "cow"))
        "no training sample has class 1 ('dog'), which members cannot learn"
    """
    if targets is None or classes is None or targets.ndim != 1:
        return None
    first, last = int(targets.min()), int(targets.max())
    if not (absent := absent_classes(targets, last + 1, names)):
        return None
    said = f"no training sample has {absent}, which members cannot learn"
    if first == 0 or names:
        return said
    return f"{said}; labels count from 0: subtract {first} from all of them"


def check_run(
    ensemble: Ensemble, data: RunData, spec: TrainingSpec, exchange: Exchange
) -> int | None:
    """Check that members, data and method fit; return the classes of labels."""
    classes = _check_data(ensemble, data, spec, exchange)
    samples = length(data.train)
    _check_batch(spec, samples, exchange.sharing)
    _check_length(spec, len(ensemble), steps_per_epoch(samples, spec.batch_size))
    for_member(spec.method, 0, len(ensemble))
    _check_course(ensemble, spec, exchange)
    if spec.prune is not None:
        for_member(spec.prune, 0, len(ensemble))
        for member in ensemble.members:
            check_prunable(member)
    return classes


def _check_data(
    ensemble: Ensemble, data: RunData, spec: TrainingSpec, exchange: Exchange
) -> int | None:
    """Run every member on a few samples; return the classes that labels must fit."""
    owned = exchange.owned(len(ensemble))
    modules = [ensemble.members[index] for index in owned]
    _check_finite("dataset", data.train)
    few = few_of(data.train, modules)
    _check_compared(spec, few.targets)
    own = output_sizes(modules, few, spec.loss)
    check_targets("the training data", data.train, spec.loss)
    if isinstance(spec.augment, PerMember):
        spec.augment.of(0, len(ensemble))
    for steps in spec.policies:
        _check_augment(steps, data.train, few)
    sizes = exchange.collect(dict(zip(owned, own, strict=True)))
    rule = "have members with equally many outputs where they meet inside the loss"
    coupled = isinstance(spec.method, CoupledMethod)
    require(not coupled or len(set(sizes)) == 1, "ensemble", rule, sizes)
    classes = _check_classes(data.train, sizes, spec.loss)
    if data.held_out is not None:
        _check_finite("validation", data.held_out)
        check_targets("validation", data.held_out, spec.loss)
        check_labels("validation", data.held_out, classes, data.train)
        with _of_members("validation"):
            few = few_of(data.held_out, modules)
            for outputs in _outputs(modules, few.inputs):
                task_of(spec.loss).check_learned(outputs, few.targets, spec.loss)
    if data.unlabeled is not None:
        with _of_members("unlabeled"):
            _outputs(modules, few_of(data.unlabeled, modules).inputs)
    return classes


def _check_compared(spec: TrainingSpec, targets: Tensor) -> None:
    """Refuse a method that compares classes of samples which have none, or maps."""
    method, name = spec.method, type(spec.method).__name__
    if not (isinstance(method, CoupledMethod) and method.compares_classes):
        return
    task = task_of(spec.loss)
    fits = task.chooses is not False and (
        targets.ndim <= 2 or not classifies(spec.loss)
    )
    rule = f"be one of classes (CrossEntropy) for {name}, a class for each sample"
    require(fits, "loss", rule, f"{type(spec.loss).__name__} ({task})")


def _check_classes(data: Dataset[Any], sizes: Sequence[int], loss: Loss) -> int | None:
    """Refuse labels, and weights of classes, that members cannot learn from.

    Returns:
        The classes that labels must fit, of members with so many outputs; None where
        targets are no class indices.
    """
    if not classifies(loss):
        return None
    names, labels = class_names(data), checked_targets(data)
    weights = loss.factors if isinstance(loss, CrossEntropy) else None
    for size in sizes:
        rule = f"hold one number for each of {size} classes"
        fits = weights is None or len(weights) == size
        require(fits, "class_weights", rule, weights)
    if labels.is_floating_point():
        return None
    class_indices(labels, min(sizes))
    if targets_of(data) is not None and labels.ndim == 1:
        only = int(labels[0])
        got = f"only class {names[only] if only < len(names) else only}"
        several = bool((labels != only).any())
        require(several, "labels", "hold at least two classes", got)
    return min(sizes)


def classifies(loss: Loss) -> bool:
    """Return whether a loss is tepui's cross-entropy of classes."""
    task = task_of(loss)
    return bool(task.chooses) and task.owns(loss)


def check_targets(
    argument: str, data: Dataset[Any], loss: Loss, *, scored: bool = False
) -> None:
    """Refuse values of targets that a task has not."""
    if (task := task_of(loss)).owns(loss):
        task.check_targets(argument, checked_targets(data), scored=scored)


def _check_finite(argument: str, data: Dataset[Any]) -> None:
    """Refuse data in memory with NaN or infinity, which would spoil all weights."""
    if (arrays := as_arrays(data)) is None:
        return
    inputs = arrays.inputs
    parts = [inputs] if isinstance(inputs, Tensor) else [*inputs.values()]
    for tensor in (*parts, arrays.targets):
        if tensor.is_floating_point():
            bad = ~tensor.isfinite().reshape(len(tensor), -1).all(1)
            got = f"NaN or infinity in {int(bad.sum())} of {len(bad)} rows"
            require(not bool(bad.any()), argument, "be finite (fill or drop)", got)


@contextmanager
def _of_members(argument: str) -> Iterator[None]:
    """Let an error about samples say which data they are of."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{argument} must fit the members, but: {error}") from error


def _check_augment(
    steps: Sequence[Augmentation], data: Dataset[Any], few: Batch
) -> None:
    """Refuse augmentations that inputs or targets cannot have."""
    inputs, pixels = few.inputs, few.targets.ndim > 2
    check_kind(inputs, steps)
    moving = [type(step).__name__ for step in steps if isinstance(step, MOVING)]
    rule = "leave pixels where they are, since targets of pixels do not move with them"
    require(not (pixels and moving), "augment", rule, ", ".join(moving))
    if any(isinstance(step, ByteAugmentation) for step in steps):
        held = data if isinstance(data, StoredData) else as_arrays(data)
        raw = inputs if held is None else held.raw(torch.arange(min(2, len(held))))
        if isinstance(raw, Tensor):
            check_levels(raw)
    got = "a mapping of tensors"
    if isinstance(inputs, Tensor):
        got = f"{inputs.dtype} of shape {tuple(inputs.shape)}"
    if any(isinstance(step, CutMix) for step in steps):
        images = isinstance(inputs, Tensor) and inputs.ndim == 4 and not pixels
        rule = "leave out CutMix but for images with one label each"
        require(images, "augment", rule, got)
    if any(isinstance(step, Mixing) for step in steps):
        numbers = isinstance(inputs, Tensor) and inputs.is_floating_point()
        rule = "mix samples only where they are floats, or images of bytes"
        require(numbers, "augment", rule, got)


def _check_batch(spec: TrainingSpec, samples: int, ranks: int) -> None:
    """Check that every rank that shares a batch has samples enough."""
    size = min(spec.batch_size, samples)
    kinds = 2 if isinstance(spec.method, ExchangingMethod) else 1
    least = FEWEST_SAMPLES * ranks * kinds
    each = "each rank" if kinds == 1 else "each rank and kind"
    rule = f"give two samples to {each} ({least} to {ranks} ranks)"
    require(ranks == 1 or size >= least, "batch_size", rule, size)


def _check_length(spec: TrainingSpec, members: int, steps: int) -> None:
    """Refuse a run too short for its method, and warn of one that exchanges nothing."""
    method, least = spec.method, 1
    if isinstance(method, CoupledMethod):
        least = method.least_steps(members)
    enough = spec.epochs >= members or not method.successive
    rule = f"be at least the number of members, {members}, which share them"
    require(enough, "epochs", rule, spec.epochs)
    rule = f"give all members of {type(method).__name__} a turn ({least} steps)"
    require(spec.epochs * steps >= least, "epochs", rule, spec.epochs)
    # Each refuses a plan that does not fit.
    method.phase(0, spec.epochs)
    if isinstance(method, ExchangingMethod) and not any(
        method.exchanges_before(epoch, spec.epochs) for epoch in range(spec.epochs)
    ):
        warn(
            f"{type(method).__name__} exchanges nothing in a run of {spec.epochs} "
            "epoch(s); it takes a longer run, or an earlier moment (switch_at)"
        )


def _check_course(ensemble: Ensemble, spec: TrainingSpec, exchange: Exchange) -> None:
    """Refuse members that cannot go on from each other."""
    count = len(ensemble)
    if spec.method.successive:
        here = len(exchange.owned(count))
        rule = f"train all {count} members, one after the other"
        require(here == count, "a process of this run", rule, here)
    if spec.course(count).all_begin_anew:
        return
    first, *others = ensemble.members
    for index, other in enumerate(others, 1):
        rule = "have the layers of member 0, to go on from it"
        alike = structure_digest(first) == structure_digest(other)
        require(alike, f"member {index}", rule, type(other).__name__)


def few_of(dataset: Dataset[Any], modules: Sequence[nn.Module]) -> Batch:
    """Return two samples, where the modules lie."""
    device = device_of(modules[0]) if modules else torch.device("cpu")
    rows = torch.arange(min(2, length(dataset)))
    return next(at_rows(dataset, [rows], device=device))


def output_sizes(modules: Sequence[nn.Module], few: Batch, loss: Loss) -> list[int]:
    """Return how many outputs each module has, of which the loss can be taken."""
    outputs = _outputs(modules, few.inputs)
    for item in outputs:
        task_of(loss).check_learned(item, few.targets, loss)
    if classifies(loss) and outputs and outputs[0].ndim == 2:
        warn_of_probabilities(outputs[0])
    return [item.shape[1] if item.ndim > 1 else 1 for item in outputs]


def _outputs(modules: Sequence[nn.Module], inputs: Inputs) -> list[Tensor]:
    """Return the outputs of each module for some samples."""
    outputs = []
    for module in modules:
        with evaluating(module), torch.no_grad(), refusal_named(inputs):
            outputs.append(forward(module, inputs))
    return outputs


def check_labels(
    argument: str, dataset: Dataset[Any], classes: int | None, train: Dataset[Any]
) -> None:
    """Check that labels fit the outputs and mean what they mean in training."""
    same_classes(argument, class_names(dataset), class_names(train), "the training set")
    if classes is not None:
        class_indices(checked_targets(dataset), classes, f"labels of {argument}")
