"""What every training method promises."""

import dataclasses
import json
import math
from typing import Any

import torch
from torch import nn

from tepui.core.members import for_member
from tepui.core.spec import document
from tepui.core.storage import same_bits
from tepui.ensembles import Ensemble
from tepui.methods import CoupledMethod, ExchangingMethod, MemberMethod, Method
from tepui.modules import Prune
from tepui.modules.pruning import masks_of
from tepui.testing.captures import check_shapes, check_warming_up
from tepui.testing.continuing import check_prefix, check_resuming
from tepui.testing.expecting import Subject
from tepui.testing.small_runs import (
    LONGEST,
    expect_same_runs,
    fitted,
    network,
    phases,
    plain_network,
)
from tepui.testing.steps import (
    check_coupling,
    check_gradient,
    check_masks,
    check_places,
    check_reading,
    check_start,
)
from tepui.training import EpochRecord


def check_method(method: Method) -> None:
    """Check that a training method does what every method of tepui does.

    It is a frozen value that JSON describes; its step leaves weights as they were,
    returns the loss and one detached gradient per parameter and could be captured on a
    GPU; it trains every member, gives the same bits again, after a kill and after its
    prefix, leaves global generators alone and pruned weights at zero, and works in
    float64. Members that train independently do not depend on how many there are. All
    of it runs on the CPU, in a few seconds.

    Args:
        method: The method, with the hyperparameters to try.

    Raises:
        AssertionError: If it does not; the message names method, rule and what was
            seen.

    Example:
        >>> from tepui.methods import DeepEnsemble
        >>> check_method(DeepEnsemble())
    """
    if isinstance(method, type):
        seen = f"a class; pass an instance: {method.__name__}()"
        Subject(method.__name__).must("be an instance", False, seen)
    checked = Subject(type(method).__name__)
    _check_value(checked, method)
    _check_lists(checked, method)
    check_start(checked, method)
    if method.fixed_shapes:
        check_shapes(checked, method)
    if isinstance(method, MemberMethod):
        for phase in phases(checked, method):
            check_gradient(checked, method, phase)
            check_masks(checked, method, phase)
    if isinstance(method, CoupledMethod):
        check_coupling(checked, method)
    _check_training(checked, method)
    _check_repeating(checked, method)
    check_resuming(checked, method)
    check_prefix(checked, method)
    if not method.successive:
        _check_pruning(checked, method)
    _check_float64(checked, method)
    if method.fixed_shapes:
        for phase in phases(checked, method):
            check_reading(checked, method, phase)
            check_places(checked, method, phase)
        check_warming_up(checked, method)


def _check_value(checked: Subject, method: Method) -> None:
    kinds = isinstance(method, MemberMethod | CoupledMethod)
    rule = "derive from MemberMethod, ExchangingMethod or CoupledMethod"
    checked.must(rule, kinds, [base.__name__ for base in type(method).__mro__])
    declared = "__dataclass_fields__" in vars(type(method))
    frozen = declared and type(method).__dataclass_params__.frozen  # type: ignore[attr-defined]
    rule = "be a frozen dataclass: @dataclass(frozen=True, kw_only=True)"
    checked.must(rule, frozen, "another class")
    twin = dataclasses.replace(method)
    with checked.must_manage("be hashable"):
        same = twin == method and hash(twin) == hash(method)
    checked.must(
        "be equal to a method with its hyperparameters", same, "different ones"
    )
    with checked.must_manage("have hyperparameters that JSON can hold"):
        described = document(method)
        text = json.dumps(described)
        same = json.loads(text) == described
    fields = {field.name for field in dataclasses.fields(method)} | {"class"}
    complete = same and described.keys() == fields
    checked.must("be described by its hyperparameters", complete, described)
    rule = "be described by values that are alike in every process"
    checked.must(rule, " at 0x" not in text, described)


def _check_lists(checked: Subject, method: Method) -> None:
    for field in dataclasses.fields(method):
        value = getattr(method, field.name)
        if not field.metadata.get("per_member") or isinstance(value, tuple | list):
            continue
        rule = f"take one value of {field.name} per member, as a tuple or a list"
        for values in ((value, value), [value, value]):
            with checked.must_manage(rule):
                both: Any = dataclasses.replace(method, **{field.name: values})
                resolved = for_member(both, 1, 2)
            checked.must(rule, resolved == method, resolved)


def _check_training(checked: Subject, method: Method) -> None:
    with checked.must_manage("train"), checked.must_keep_generators():
        run = fitted(method, plain_network, epochs=LONGEST)
    first, last = (_mean(record) for record in (run.history[0], run.history[-1]))
    rule = f"lower the training loss in {LONGEST} epochs"
    checked.must(rule, last < first, f"{last:.4f} after {first:.4f}")
    start = Ensemble.build(plain_network, members=3, seed=3)
    for index, (before, after) in enumerate(
        zip(start.members, run.ensemble.members, strict=True)
    ):
        same = same_bits(dict(before.state_dict()), dict(after.state_dict()))
        checked.must(f"train member {index}", not same, "its first weights")
    left = any(p.grad is not None for p in run.ensemble.parameters())
    checked.must("leave no gradient behind", not left, "some in .grad")


def _mean(record: EpochRecord) -> float:
    losses = record.trained
    return sum(losses) / len(losses) if losses else math.nan


def _check_repeating(checked: Subject, method: Method) -> None:
    first = fitted(method)
    with torch.random.fork_rng():
        torch.default_generator.manual_seed(1)
        second = fitted(method)
    expect_same_runs(checked, "give the same bits for the same seed", first, second)
    if isinstance(method, CoupledMethod | ExchangingMethod) or method.successive:
        return
    together = first.ensemble
    alone = fitted(method, members=1, seed=[together.seeds[1]]).ensemble
    tensors = [dict(m.state_dict()) for m in (alone.members[0], together.members[1])]
    rule = "train a member alone as it does among others"
    checked.must(rule, same_bits(*tensors), "other weights")


def _check_pruning(checked: Subject, method: Method) -> None:
    modules: list[nn.Module] = []

    def kept() -> nn.Module:
        modules.append(network())
        return modules[-1]

    def look(record: EpochRecord) -> None:
        for module in modules:
            parameters = dict(module.named_parameters())
            for key, mask in masks_of(module).items():
                left = int(parameters[key][~mask].count_nonzero())
                rule = "leave pruned weights at zero"
                checked.must(rule, left == 0, f"{left} others in {key}")

    with checked.must_manage("train pruned members"):
        fitted(method, kept, epochs=4, prune=Prune(prune_at=0.5), callbacks=[look])


def _check_float64(checked: Subject, method: Method) -> None:
    with checked.must_manage("train in float64"):
        run = fitted(method, network, dtype=torch.float64)
    kinds = {p.dtype for p in run.ensemble.parameters()}
    checked.must("keep weights in float64", kinds == {torch.float64}, kinds)
