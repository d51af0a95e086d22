"""Whether data, model and what was asked fit together, checked before a run begins."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from tepui.core.checks import class_indices, require
from tepui.core.new_gradients import is_sharded
from tepui.core.probabilities import warn_of_probabilities
from tepui.core.spec import document
from tepui.core.warning import warn
from tepui.data.arrays import Arrays, Batch, Inputs
from tepui.data.augment import (
    Augmentation,
    ByteAugmentation,
    HorizontalFlip,
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
from tepui.data.checked_targets import checked_targets
from tepui.data.class_names import class_names, same_classes
from tepui.data.files.table import Table
from tepui.data.identity import data_identity
from tepui.data.loading import as_arrays, at_rows, length
from tepui.data.mixing import CutMix, Mixing
from tepui.data.policy import PerMember
from tepui.data.preparation import preparation_of
from tepui.data.splits import split, split_rows
from tepui.data.stored import StoredData
from tepui.ensembles.ensemble import Ensemble
from tepui.ensembles.some_members import check_seeds
from tepui.losses import CrossEntropy, Loss
from tepui.methods.base import ExchangingMethod, Method
from tepui.methods.coupled import CoupledMethod
from tepui.modules.running import device_of, evaluating, forward, refusal_named
from tepui.modules.state import description, structure_digest
from tepui.tasks import task_of
from tepui.training.exchange import Exchange
from tepui.training.numerics import Numerics
from tepui.training.shards import FEWEST_SAMPLES
from tepui.training.spec import ExecutionSpec, TrainingSpec
from tepui.training.targets import check_loss, check_yes_or_no, classifies

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


def check_execution(
    spec: TrainingSpec, execution: ExecutionSpec, validation: object, out: object
) -> None:
    """Check that the two specifications go together."""
    rule = 'be given to keep the "best" weights'
    require(spec.keep == "last" or validation is not None, "validation", rule, None)
    watched = spec.early_stopping is not None and spec.early_stopping.validates
    rule = "be given to early_stopping, which watches it"
    require(not watched or validation is not None, "validation", rule, None)
    coupled = isinstance(spec.method, CoupledMethod)
    rule = "be false where members are coupled inside the loss"
    require(not (execution.offload and coupled), "offload", rule, execution.offload)
    rule = "be given with stop_after, so that the run can be continued"
    stop = execution.stop_after
    require(stop is None or out is not None, "out", rule, out)
    rule = f"lie within the run ({spec.epochs} epochs)"
    require(stop is None or stop <= spec.epochs, "stop_after", rule, stop)
    check_shards(spec, execution.data_parallel)


def check_members(ensemble: Ensemble) -> None:
    """Refuse members without their own seeds, or whose gradients would be zero."""
    check_seeds(ensemble.seeds, len(ensemble))
    rule = (
        "be a plain tensor, not divided by fully_shard, whose members need a loop of "
        "their own (with tepui.optim.SAM)"
    )
    for index, module in enumerate(ensemble.members):
        for name, parameter in module.named_parameters():
            what = f"{name} of member {index}"
            require(not is_sharded(parameter), what, rule, type(parameter).__name__)


def check_shards(spec: TrainingSpec, ranks: int) -> None:
    """Check that the shards of a batch go together with their policies and ranks."""
    shards, name = spec.virtual_shards, type(spec.method).__name__
    rule = f"be a multiple of data_parallel ({ranks})"
    require(shards % ranks == 0, "virtual_shards", rule, shards)
    alone, together = spec.perturbation == "shard", spec.batch_norm == "synchronized"
    rule = 'be "{}" where a batch is one shard (virtual_shards is 1)'
    divided = shards > 1
    require(divided or not alone, "perturbation", rule.format("global"), "shard")
    require(divided or not together, "batch_norm", rule.format("shard"), "synchronized")
    rule = 'be "shard" with {}: shards that are normalized together go in step'
    for reason, holds in {
        'perturbation="shard"': alone,
        "accumulate > 1": spec.accumulate > 1,
        f"a {name} whose batches change their shapes": not spec.method.fixed_shapes,
    }.items():
        require(
            not (together and holds), "batch_norm", rule.format(reason), "synchronized"
        )


def check_batch(spec: TrainingSpec, samples: int) -> None:
    """Check that every shard of a batch has samples enough."""
    size, shards = min(spec.batch_size, samples), spec.virtual_shards
    exact = spec.perturbation == "shard" or spec.batch_norm == "synchronized"
    kinds = 2 if exact and isinstance(spec.method, ExchangingMethod) else 1
    least = FEWEST_SAMPLES * shards * kinds
    each = "each shard" if kinds == 1 else "each shard and kind"
    rule = f"give two samples to {each} ({least} to {shards} shards)"
    require(shards == 1 or size >= least, "batch_size", rule, size)


def divide(
    dataset: Dataset[Any],
    validation: Dataset[Any] | float | None,
    unlabeled: Dataset[Any] | None,
    method: Method,
    members: int,
    weights: Tensor | None = None,
) -> RunData:
    """Return the data of a run; what is held out is the same for all members."""
    _check_unlabeled(method, unlabeled)
    if isinstance(method, CoupledMethod):
        method.check_members(members)
    samples = length(dataset)
    if weights is not None:
        check_weights(weights, samples)
    if isinstance(validation, float | int):
        require(0 < validation < 1, "validation", "be a share in (0, 1)", validation)
        parts = divided(dataset, validation)
        if weights is not None:
            weights = weights[split_rows(samples, validation, seed=0)[0]]
        return RunData(*parts, unlabeled, weights)
    if validation is not None:
        length(validation, "validation")
        if isinstance(dataset, Table) and (known := preparation_of(dataset)):
            known.check_table(validation, "validation")
    return RunData(dataset, validation, unlabeled, weights)


def check_weights(weights: Tensor, samples: int) -> None:
    """Refuse weights that are not one factor per sample, some of them positive."""
    rule = f"hold one number per sample ({samples})"
    numbers = weights.shape == (samples,) and not weights.is_complex()
    require(numbers, "sample_weights", rule, f"shape {tuple(weights.shape)}")
    rule = "be finite and not negative"
    lowest, highest = float(weights.min()), float(weights.max())
    fits = bool(torch.isfinite(weights).all()) and lowest >= 0
    require(fits, "sample_weights", rule, f"numbers from {lowest:g} to {highest:g}")
    require(highest > 0, "sample_weights", "be positive for some sample", "zeros alone")


def divided(
    dataset: Dataset[Any], validation: float
) -> tuple[Dataset[Any], Dataset[Any]]:
    """Return what is trained on and the share that is held out, which no seed moves."""
    return split(as_arrays(dataset) or dataset, validation, seed=0)


def check_data(
    ensemble: Ensemble, data: RunData, spec: TrainingSpec, exchange: Exchange
) -> int | None:
    """Run every member on a few samples; return the classes that labels must fit."""
    check_task(spec)
    owned = exchange.owned(len(ensemble))
    modules = [ensemble.members[index] for index in owned]
    few = few_of(data.train, modules)
    own = output_sizes(modules, few, spec.loss)
    check_yes_or_no("the training data", data.train, spec.loss)
    _check_pixels(spec, few.targets)
    if isinstance(spec.augment, PerMember):
        spec.augment.of(0, len(ensemble))
    for steps in spec.policies:
        check_kind(few.inputs, steps)
        _check_augment(steps, few.targets)
        _check_levels(steps, data.train, few.inputs)
        _check_mixing(steps, few)
    sizes = exchange.collect(dict(zip(owned, own, strict=True)))
    rule = "have members with equally many outputs where they meet inside the loss"
    coupled = isinstance(spec.method, CoupledMethod)
    require(not coupled or len(set(sizes)) == 1, "ensemble", rule, sizes)
    names = class_names(data.train)
    _check_class_weights(spec.loss, sizes, names)
    _warn_of_more_outputs(spec.loss, sizes, names)
    labels = checked_targets(data.train)
    classes = classes_of(sizes, labels, spec.loss)
    if classes is not None:
        class_indices(labels, classes)
    if data.held_out is not None:
        check_yes_or_no("validation", data.held_out, spec.loss)
        check_labels("validation", data.held_out, classes, data.train)
        with _of_members("validation"):
            few = few_of(data.held_out, modules)
            for outputs in _outputs(modules, few.inputs):
                check_loss(outputs, few.targets, spec.loss)
    if data.unlabeled is not None:
        with _of_members("unlabeled"):
            _outputs(modules, few_of(data.unlabeled, modules).inputs)
    return classes


@contextmanager
def _of_members(argument: str) -> Iterator[None]:
    """Let an error about samples say which data they are of."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{argument} must fit the members, but: {error}") from error


def _check_augment(steps: Sequence[Augmentation], targets: Tensor) -> None:
    """Refuse to move the pixels of images whose targets are one for each pixel."""
    moving = [type(step).__name__ for step in steps if isinstance(step, MOVING)]
    rule = "leave pixels where they are, since targets of pixels do not move with them"
    require(targets.ndim <= 2 or not moving, "augment", rule, ", ".join(moving))


def _check_mixing(steps: Sequence[Augmentation], few: Batch) -> None:
    """Refuse to mix what has no mixture."""
    inputs = few.inputs
    if any(isinstance(step, CutMix) for step in steps):
        images = isinstance(inputs, Tensor) and inputs.ndim == 4
        rule = "leave out CutMix, which pastes parts of images, for other inputs"
        require(images, "augment", rule, _form(inputs))
        rule = "leave out CutMix where each pixel has a label, since labels stay"
        got = f"labels of shape {tuple(few.targets.shape)}"
        require(few.targets.ndim <= 2, "augment", rule, got)
    if any(isinstance(step, Mixing) for step in steps):
        numbers = isinstance(inputs, Tensor) and inputs.is_floating_point()
        rule = "mix samples only where they are floats, or images of bytes"
        require(numbers, "augment", rule, _form(inputs))


def _form(inputs: Inputs) -> str:
    if isinstance(inputs, Tensor):
        return f"{inputs.dtype} of shape {tuple(inputs.shape)}"
    return "a mapping of tensors"


def _check_levels(
    steps: Sequence[Augmentation], dataset: Dataset[Any], prepared: Inputs
) -> None:
    """Refuse floats that augmentations of bytes cannot change."""
    held = dataset if isinstance(dataset, StoredData) else as_arrays(dataset)
    raw = prepared if held is None else held.raw(torch.arange(min(2, len(held))))
    if isinstance(raw, Tensor) and any(isinstance(s, ByteAugmentation) for s in steps):
        check_levels(raw)


def check_task(spec: TrainingSpec) -> None:
    """Refuse a method that compares classes where outputs are known to be none."""
    task = task_of(spec.loss)
    compares = isinstance(spec.method, CoupledMethod) and spec.method.compares_classes
    fits = task.chooses is not False or not compares
    name = type(spec.method).__name__
    rule = f"be one of classes (CrossEntropy) for {name}, whose members compare them"
    require(fits, "loss", rule, f"{type(spec.loss).__name__} ({task})")


def _check_pixels(spec: TrainingSpec, targets: Tensor) -> None:
    """Refuse a method that compares classes of samples where pixels have them."""
    compares = isinstance(spec.method, CoupledMethod) and spec.method.compares_classes
    pixels = classifies(spec.loss) and targets.ndim > 2
    name = type(spec.method).__name__
    rule = (
        f"be one of independent members (DeepEnsemble, SAM, SharpBalance) where each "
        f"pixel has a class, since {name} compares one class of each sample"
    )
    got = f"labels of shape {tuple(targets.shape)}"
    require(not (compares and pixels), "method", rule, got)


def check_length(spec: TrainingSpec, members: int, steps: int) -> None:
    """Refuse a run too short for its method, and warn of one that exchanges nothing."""
    method, least = spec.method, 1
    if isinstance(method, CoupledMethod):
        least = method.least_steps(members)
    enough = spec.epochs >= members or not method.successive
    rule = f"be at least the number of members, {members}, which share them"
    require(enough, "epochs", rule, spec.epochs)
    rule = (
        f"give {type(method).__name__} at least {least} steps, so that each of its "
        f"{members} members can have a turn"
    )
    lasts = f"{spec.epochs} of {steps} step(s)"
    require(spec.epochs * steps >= least, "epochs", rule, lasts)
    # Each refuses a plan that does not fit.
    method.phase(0, spec.epochs)
    if isinstance(method, ExchangingMethod) and not any(
        method.exchanges_before(epoch, spec.epochs) for epoch in range(spec.epochs)
    ):
        warn(
            f"{type(method).__name__} exchanges nothing in a run of {spec.epochs} "
            "epoch(s), to whose end members train each by itself; it takes a longer "
            "run, or an earlier moment (switch_at of SharpBalance)"
        )


def few_of(dataset: Dataset[Any], modules: Sequence[nn.Module]) -> Batch:
    """Return two samples, where the modules lie."""
    device = device_of(modules[0]) if modules else torch.device("cpu")
    rows = torch.arange(min(2, length(dataset)))
    return next(at_rows(dataset, [rows], device=device))


def classes_of(sizes: Sequence[int], targets: Tensor, loss: Loss) -> int | None:
    """Return the classes that labels must fit, of members with so many outputs."""
    indices = classifies(loss) and not targets.is_floating_point()
    return min(sizes) if indices else None


def _check_class_weights(
    loss: Loss, sizes: Sequence[int], names: Sequence[str]
) -> None:
    """Refuse weights that are not one for each class, and say in which order."""
    weights = loss.factors if isinstance(loss, CrossEntropy) else None
    if weights is None:
        return
    for size in sizes:
        named = len(names) == size
        order = ", ".join(names) if named else "in the order of labels, from 0"
        rule = f"hold one number for each of {size} classes ({order})"
        require(len(weights) == size, "class_weights", rule, weights)


def _warn_of_more_outputs(
    loss: Loss, sizes: Sequence[int], names: Sequence[str]
) -> None:
    """Say that members have outputs for which there are no classes to learn."""
    if classifies(loss) and names and max(sizes, default=0) > len(names):
        warn(
            f"members have {max(sizes)} outputs and the data {len(names)} classes, so "
            "that the other outputs only learn never to be the answer; on the command "
            "line a model's argument that is called num_classes follows the data"
        )


def output_sizes(modules: Sequence[nn.Module], few: Batch, loss: Loss) -> list[int]:
    """Return how many outputs each module has, of which the loss can be taken."""
    outputs = _outputs(modules, few.inputs)
    for item in outputs:
        check_loss(item, few.targets, loss)
    if classifies(loss) and outputs and outputs[0].ndim == 2:
        warn_of_probabilities(outputs[0])
    return [_width(item) for item in outputs]


def output_width(module: nn.Module, few: Batch, loss: Loss) -> int:
    """Return how many outputs a module has, whose targets fit the loss."""
    (outputs,) = _outputs([module], few.inputs)
    check_loss(outputs, few.targets, loss)
    return _width(outputs)


def _width(outputs: Tensor) -> int:
    return outputs.shape[1] if outputs.ndim > 1 else 1


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


def run_config(
    ensemble: Ensemble,
    dataset: Dataset[Any],
    data: RunData,
    spec: TrainingSpec,
    execution: ExecutionSpec,
    numerics: Numerics,
) -> dict[str, Any]:
    """Return what was asked for, as a run folder records it."""
    config: dict[str, Any] = document(spec)
    del config["class"]
    config |= {
        "seeds": list(ensemble.seeds),
        "runner": execution.runner,
        "compile": execution.compile,
        "device": numerics.device.type,
        "precision": numerics.precision,
        "deterministic": execution.deterministic,
        "cpu_kernels": execution.cpu_kernels,
        "threads": numerics.threads,
    }
    config["models"] = [
        description(member) | {"layers": structure_digest(member)}
        for member in ensemble.members
    ]
    config["data"] = data_identity(data.train) | {
        "class": type(dataset).__qualname__,
        "classes": list(class_names(data.train)),
    }
    for name, part in (("unlabeled", data.unlabeled), ("validation", data.held_out)):
        config[name] = None if part is None else data_identity(part)
    if data.weights is not None:
        config["sample_weights"] = data_identity(Arrays(data.weights, data.weights))
    return config


def _check_unlabeled(method: Method, unlabeled: Dataset[Any] | None) -> None:
    wanted, name = method.needs_unlabeled, type(method).__name__
    rule = f"be None for {name}, which uses no such data"
    require(wanted or unlabeled is None, "unlabeled", rule, type(unlabeled).__name__)
    rule = (
        f"be a data set for {name}, whose members disagree on it (SED and methods "
        "with independent members need none)"
    )
    require(not wanted or unlabeled is not None, "unlabeled", rule, None)
