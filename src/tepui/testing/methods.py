"""What every training method promises."""

import dataclasses
import json
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn

from tepui.core.members import for_member
from tepui.core.seeding import derive
from tepui.core.spec import document
from tepui.core.storage import same_bits
from tepui.ensembles import Ensemble
from tepui.methods import CoupledMethod, ExchangingMethod, MemberMethod, Method
from tepui.modules import Prune
from tepui.modules.pruning import masks_of
from tepui.testing.expecting import REFUSALS, Subject
from tepui.testing.steps import (
    LONGEST,
    check_coupling,
    check_gradient,
    check_masks,
    check_places,
    check_reading,
    check_start,
    driven,
    expect_same_runs,
    fitted,
    network,
    phases,
    plain_network,
)
from tepui.training import EpochRecord, Run
from tepui.training.coupled import CoupledRunner, SlotRunner
from tepui.training.graphs import WARM_UP_STEPS, Feed, fed_step, feed_of, taken_back
from tepui.training.member import TrainingMember
from tepui.training.run_folder import RunFolder
from tepui.training.runner import EagerRunner, Plan, Runner


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


class _KilledError(Exception):
    """Ends a run where a kill would."""


def check_resuming(checked: Subject, method: Method) -> None:
    """Check that a kill leaves no trace."""

    def kill(record: EpochRecord) -> None:
        if record.epoch == 1:
            raise _KilledError

    rule = "end with the same bits after a kill and a resume"
    with TemporaryDirectory() as folder, checked.must_manage(rule):
        out = Path(folder) / "parts"
        with suppress(_KilledError):
            fitted(method, epochs=3, out=out, callbacks=[kill])
        parts = fitted(method, epochs=3, out=out, resume=True)
        whole = fitted(method, epochs=3, out=Path(folder) / "whole")
        _expect_same_ends(checked, rule, whole, parts)


def check_prefix(checked: Subject, method: Method, epochs: int = 4) -> None:
    """Check that a run may begin with the method's prefix."""
    with checked.must_manage("return a method and an epoch from prefix"):
        beginning, alike = method.prefix(epochs)
    fits = isinstance(beginning, Method) and 0 <= alike <= epochs
    rule = f"return a method and an epoch of {epochs} from prefix"
    checked.must(rule, fits, (beginning, alike))
    if beginning == method or alike == 0:
        return
    rule = f"end with the same bits after {alike} epochs of its prefix {beginning}"
    with TemporaryDirectory() as folder, checked.must_manage(rule):
        begun, out = Path(folder) / "begun", Path(folder) / "branch"
        fitted(beginning, epochs=epochs, out=begun, stop_after=alike)
        branch = fitted(method, epochs=epochs, out=out, branch_from=begun)
        whole = fitted(method, epochs=epochs, out=Path(folder) / "whole")
        _expect_same_ends(checked, rule, whole, branch)


def _expect_same_ends(checked: Subject, rule: str, first: Run, second: Run) -> None:
    """Raise unless two runs ended alike, their checkpoints included."""
    expect_same_runs(checked, rule, first, second)
    for one, other in zip(_checkpoint(first), _checkpoint(second), strict=True):
        same = same_bits(one[0], other[0]) and one[1] == other[1]
        checked.must(rule, same, "another checkpoint")


def _checkpoint(run: Run) -> list[tuple[dict[str, Tensor], dict[str, Any]]]:
    """Return tensors and document of every member in a run's last checkpoint."""
    assert run.path is not None
    saved = RunFolder(run.path).load_checkpoint()
    assert saved is not None
    return [saved.member(index) for index in range(len(saved.digests))]


_Pass = tuple[int, bool, tuple[int, ...]]


def check_warming_up(checked: Subject, method: Method) -> None:
    """Check that steps which are taken back leave nothing behind."""
    coupled = isinstance(method, CoupledMethod)
    rule = "end with the same bits if it warms up first, as before a capture"
    if coupled:
        rule += ", and runs in slots"
    eager, other = (
        (CoupledRunner, SlotRunner) if coupled else (EagerRunner, WarmedRunner)
    )
    with checked.must_manage(rule):
        plain = driven(method, lambda plan, _: eager(plan))
        warmed = driven(method, lambda plan, _: other(plan))
    # Momentum that starts as zero, and not as nothing, may turn -0 into 0.
    expect_same_runs(checked, rule, plain, warmed, signed_zeros=False)


def check_shapes(checked: Subject, method: Method) -> None:
    """Check that steps between which nothing is captured meet the same shapes."""
    coupled = isinstance(method, CoupledMethod)
    passes: list[_Pass] = []
    steps: dict[tuple[int, int, str], set[object]] = {}

    class Noting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = network()

        def forward(self, x: Tensor) -> Tensor:
            passes.append((id(self), self.training, tuple(x.shape)))
            logits: Tensor = self.inner(x)
            return logits

    def noting(plan: Plan, members: Sequence[TrainingMember]) -> Runner:
        def note(done: int) -> None:
            module = id(members[0].module) if coupled else passes[-1][0]
            member = next(m for m in members if id(m.module) == module)
            # What members are asked in an exchange, in eval mode, is no part of a step.
            met = tuple(item[1:] for item in passes if coupled or item[1])
            kept = tuple((name, tuple(t.shape)) for name, t in member.state.items())
            captured_for = member.index, member.exchanged, member.phase
            steps.setdefault(captured_for, set()).add((met, kept))
            passes.clear()

        passes.clear()  # of the checks before the run
        noted = replace(plan, advance=note)
        return CoupledRunner(noted) if coupled else EagerRunner(noted)

    with suppress(*REFUSALS):  # which the checks that follow name more precisely
        driven(method, noting, Noting)
    rule = "meet the same shapes in every step, or say otherwise in fixed_shapes"
    for kinds in steps.values():
        checked.must(rule, len(kinds) == 1, f"{len(kinds)} kinds of steps: {kinds}")


class WarmedRunner(Runner):
    """Runs eagerly what a GPU would capture, after what precedes a capture."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._warmed: dict[int, tuple[tuple[int, str], Feed]] = {}

    def run_epoch(self, members: Sequence[TrainingMember], epoch: int) -> None:
        """Run what is left of an epoch."""
        for member in members:
            member.module.train()
            feed = self._warmed_up(member, epoch)
            feed.begin(epoch)
            while not self.plan.stopping() and feed.advance():
                member.set_time(*self.plan.time(member.step))
                member.noise_seed = derive(member.seed, "noise", member.step)
                fed_step(member, feed)
                member.step += 1
                self.plan.advance(1)

    def _warmed_up(self, member: TrainingMember, epoch: int) -> Feed:
        """Return a member's feed, after steps that are taken back where it is new."""
        now = member.exchanged, member.phase
        known, feed = self._warmed.get(member.index, (None, None))
        if feed is None or known != now:
            feed = feed_of(self.plan, member, epoch)
            member.set_time(*self.plan.time(member.step))
            member.noise_seed = 0
            with taken_back(member):
                for _ in range(WARM_UP_STEPS):
                    fed_step(member, feed)
            self._warmed[member.index] = now, feed
        return feed
