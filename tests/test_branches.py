"""Branches of one first half equal the runs that they stand for, to the bit."""

import runpy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import pytest
import torch
from torch import Tensor

import tepui
from tepui.data import Arrays
from tepui.data.arrays import Batch
from tepui.methods import SAM, DeepEnsemble, Method, SharpBalance
from tepui.methods.base import ExchangingMethod
from tepui.methods.member import Gradient, Member

SCRIPT = runpy.run_path(str(Path(__file__).parents[1] / "benchmarks" / "branches.py"))
RELEASED, PAPER = SharpBalance(rho=0.05), SharpBalance.paper(rho=0.05)


@final
@dataclass(frozen=True)
class Late(ExchangingMethod):
    """The released rule with the plain gradient until the switch, in one run."""

    def exchanges_before(self, epoch: int, epochs: int) -> bool:
        return RELEASED.exchanges_before(epoch, epochs)

    def start(self, member: Member) -> dict[str, Tensor]:
        return RELEASED.start(member)

    def publish(
        self, member: Member, index: int, dataset: Any, generator: torch.Generator
    ) -> Tensor:
        return RELEASED.publish(member, index, dataset, generator)

    def receive(
        self,
        member: Member,
        index: int,
        published: Sequence[Tensor],
        generator: torch.Generator,
    ) -> None:
        RELEASED.receive(member, index, published, generator)

    def divides_by(self, member: Member) -> Tensor | None:
        return RELEASED.divides_by(member)

    def gradient(self, member: Member, batch: Batch) -> Gradient:
        rule = RELEASED if member.state["switched"] else DeepEnsemble()
        return rule.gradient(member, batch)

    def summary(self, states: Sequence[Mapping[str, Tensor]]) -> dict[str, Any]:
        return RELEASED.summary(states)


@pytest.fixture(scope="module")
def images() -> Arrays:
    stream = torch.Generator().manual_seed(0)
    pixels = torch.randint(256, (150, 3, 32, 32), generator=stream, dtype=torch.uint8)
    return Arrays(pixels, torch.randint(10, (150,), generator=stream))


def trained(images: Arrays, method: Method, folder: Path) -> tepui.Run:
    return SCRIPT["fit"](images, method, folder, width=2, seed=2, epochs=4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "branch", "whole"),
    [
        (SAM(rho=0.05), RELEASED, RELEASED),
        (SAM(rho=0.05), PAPER, PAPER),
        (DeepEnsemble(), RELEASED, Late()),
    ],
    ids=["released", "paper", "late"],
)
def test_a_branch_equals_the_run_that_it_stands_for(
    first: Method, branch: Method, whole: Method, images: Arrays, tmp_path: Path
) -> None:
    trained(images, first, tmp_path / "first")
    SCRIPT["take_over"](tmp_path / "first", tmp_path / "branch", branch, len(images))
    branched = trained(images, branch, tmp_path / "branch")
    alone = trained(images, whole, tmp_path / "alone")
    assert [r.loss for r in branched.history] == [r.loss for r in alone.history]
    assert branched.summary == alone.summary
    assert 0 < min(branched.summary["sizes"]) < len(images)
    weights, expected = branched.ensemble.state_dict(), alone.ensemble.state_dict()
    assert all(torch.equal(weights[name], expected[name]) for name in expected)
