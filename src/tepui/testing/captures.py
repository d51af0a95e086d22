"""Whether a method's step could be captured as a graph, found out without a GPU.

What precedes a capture on a GPU, a few steps that are then taken back, happens here on
the CPU; the steps themselves stay eager.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from torch import Tensor, nn

from tepui.core.seeding import derive
from tepui.methods import CoupledMethod, Method
from tepui.testing.expecting import REFUSALS, Subject
from tepui.testing.small_runs import driven, expect_same_runs, network
from tepui.training.coupled import CoupledRunner
from tepui.training.graphs import Feed, fed_step, feed_of, taken_back
from tepui.training.member import TrainingMember
from tepui.training.recording import WARM_UP_STEPS
from tepui.training.runner import EagerRunner, Plan, Runner
from tepui.training.slots import SlotRunner

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
