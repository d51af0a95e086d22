"""Whether a method's step could be captured as a graph, found out without a GPU.

What precedes a capture on a GPU, a few steps that are then taken back, happens here on
the CPU; the steps themselves stay eager.
"""

from collections.abc import Sequence

from torch import Tensor, nn

from tepui.methods import CoupledMethod, Method
from tepui.testing.expecting import expect
from tepui.testing.small_runs import (
    driven,
    expect_same_runs,
    network,
    refusals_told,
)
from tepui.training.coupled import CoupledRunner
from tepui.training.epochs import Training
from tepui.training.graphs import warm_up
from tepui.training.member import TrainingMember
from tepui.training.runner import EagerRunner, Plan, Runner
from tepui.training.slot_runner import SlotRunner

_Pass = tuple[int, bool, tuple[int, ...]]


def check_warming_up(method: Method, name: str) -> None:
    """Check that steps which are taken back leave nothing behind."""
    coupled = isinstance(method, CoupledMethod)
    rule = "end with the same bits if it warms up first, as before a capture"
    if coupled:
        rule += ", and runs in slots"
    with refusals_told(name, rule):
        eager = driven(method, CoupledRunner if coupled else EagerRunner)
        warmed = driven(method, SlotRunner if coupled else WarmedRunner)
    expect_same_runs(eager, warmed, name, rule)


def check_shapes(method: Method, name: str) -> None:
    """Check that between two exchanges every step meets the same shapes."""
    coupled = isinstance(method, CoupledMethod)
    passes: list[_Pass] = []
    steps: dict[tuple[int, int], set[object]] = {}

    class Noting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = network()

        def forward(self, x: Tensor) -> Tensor:
            passes.append((id(self), self.training, tuple(x.shape)))
            logits: Tensor = self.inner(x)
            return logits

    def note(training: Training) -> None:
        if not passes:
            return
        # What members are asked in an exchange, in eval mode, is no part of a step.
        step = tuple(item[1:] for item in passes if coupled or item[1])
        member = -1 if coupled else passes[-1][0]
        key = member, training.members[0].exchanged
        steps.setdefault(key, set()).add(step)
        passes.clear()

    runner = CoupledRunner if coupled else EagerRunner
    driven(method, runner, Noting, advance=note)
    rule = "meet the same shapes in every step, or say otherwise in fixed_shapes"
    for seen in steps.values():
        expect(len(seen) == 1, name, rule, f"{len(seen)} kinds of steps: {seen}")


class WarmedRunner(Runner):
    """Runs eagerly, after what precedes the capture of each member's step."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._warmed: dict[int, int] = {}

    def run_epoch(self, members: Sequence[TrainingMember], epoch: int) -> None:
        """Run what is left of an epoch."""
        for member in members:
            if self._warmed.get(member.index) != member.exchanged:
                member.module.train()
                member.set_time(*self.plan.time(member.step))
                member.noise_seed = 0
                warm_up(member, next(self.plan.batches(member, epoch)))
                self._warmed[member.index] = member.exchanged
        EagerRunner(self.plan).run_epoch(members, epoch)
