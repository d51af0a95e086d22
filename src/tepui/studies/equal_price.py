"""Methods at an equal price: as many epochs for each as the costliest one pays for.

A price is counted in gradients, passes of a member's data through it and back, or in
seconds that are measured once. It is written down beside a comparison, so that whoever
goes on with it, also with further methods, pays the same.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from tepui.core.checks import require
from tepui.core.storage import read_document, write_document
from tepui.methods import Method
from tepui.training import TrainingSpec
from tepui.training.optimizer import MultiStep

Equal = Literal["gradients", "seconds"]
FILE, KIND = "price.json", "price"
ROUNDING = 1e-9  # of a sum of costs


def passes(training: TrainingSpec, members: int) -> float:
    """Return what a run costs all members, in passes of a member's data."""
    return sum(training.costs(members))


def stretched(training: TrainingSpec, epochs: int) -> TrainingSpec:
    """Return a run of another length; epochs that its schedule names go with it.

    Example:
        >>> from tepui.methods import DeepEnsemble
        >>> steps = MultiStep(milestones=(5, 0.9), warmup=2)
        >>> plain = TrainingSpec(method=DeepEnsemble(), epochs=10, schedule=steps)
        >>> stretched(plain, 20).schedule
        MultiStep(warmup=4.0, milestones=(10, 0.9), gamma=0.1)
    """
    factor, schedule = epochs / training.epochs, training.schedule
    new: dict[str, Any] = {"warmup": factor * schedule.warmup}
    if isinstance(schedule, MultiStep):
        found = (m if m < 1 else round(factor * m) for m in schedule.milestones)
        new["milestones"] = tuple(found)
    part_at = training.part_at and round(factor * training.part_at)
    schedule = replace(schedule, **new)
    return replace(training, epochs=epochs, schedule=schedule, part_at=part_at)


def for_price(training: TrainingSpec, members: int, most: float) -> TrainingSpec:
    """Return a run with as many epochs as cost no more, at least one.

    Example:
        >>> from tepui.methods import SAM, DeepEnsemble
        >>> sam = TrainingSpec(method=SAM(), epochs=6)
        >>> plain = replace(sam, method=DeepEnsemble())
        >>> for_price(plain, 3, passes(sam, 3)).epochs
        12
    """

    def affordable(epochs: int) -> bool:
        return passes(stretched(training, epochs), members) <= most + ROUNDING

    # The last epochs may be dearer than the first: a guess, then one by one.
    epochs = max(1, int(training.epochs * most / passes(training, members)))
    while epochs > 1 and not affordable(epochs):
        epochs -= 1
    while affordable(epochs + 1):
        epochs += 1
    return training if epochs == training.epochs else stretched(training, epochs)


def at_equal_price(
    plain: Mapping[str, TrainingSpec],
    members: int,
    equal: Equal,
    folder: Path,
    seconds_of: Callable[[str], float],
    *,
    write: bool = True,
) -> dict[str, TrainingSpec]:
    """Return runs of which none costs more than the costliest of the plain ones.

    Args:
        plain: Runs of as many epochs as asked for, by the labels of methods.
        members: Of each ensemble.
        equal: What is paid.
        folder: Where the price is written down, or was.
        seconds_of: Trains a method briefly, and returns how long a pass takes.
        write: Whether to write it down.
    """
    epochs = next(iter(plain.values())).epochs
    asked = {"equal": equal, "epochs": epochs, "members": members}
    file = folder / FILE
    known = read_document(file, KIND) if file.is_file() else None
    for name, value in asked.items() if known is not None else ():
        assert known is not None
        rule = f"be what the comparison in {folder} has ({known[name]})"
        require(known[name] == value, name, rule, value)
    each = dict(known["seconds"]) if known is not None else {}
    for label in plain if equal == "seconds" else ():
        if label not in each:
            each[label] = seconds_of(label)
    unit = {label: each.get(label, 1.0) for label in plain}
    costs = {n: unit[n] * passes(training, members) for n, training in plain.items()}
    most = max(costs.values()) if known is None else known["most"]
    if write:
        write_document(file, KIND, {**asked, "most": most, "seconds": each})
    return {
        label: for_price(training, members, most / unit[label])
        for label, training in plain.items()
    }


def says_its_price(method: Method) -> bool:
    """Return whether a method says what its epochs cost; those of tepui do."""
    own = type(method)
    return own.__module__.startswith("tepui.") or (
        own.relative_cost is not Method.relative_cost
    )
