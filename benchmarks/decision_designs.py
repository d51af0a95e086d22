"""The arms of decisions 002, 004, 005, 007 to 009 and 012, and what each asks for.

``medium`` and ``medium_sam`` are ensembles that decision 004 did not ask for, and the
claims at that size do.

Arms of a family train alike at first: SharpBalance as SAM or as a deep ensemble does.
That part is trained once, and every arm goes on from there.
"""

import hashlib
from dataclasses import dataclass
from typing import Any

import torch
from decision_runs import SEVERITIES
from torch import Tensor, nn
from torch.utils.data import Dataset

from tepui.data.loading import length
from tepui.methods import SAM, DeepEnsemble, Method, SharpBalance

RHO = 0.05
PUBLISHED_RHO = 0.2


def random_scores(module: nn.Module, dataset: Dataset[Any]) -> Tensor:
    """Return scores that say nothing of the samples, others for each member."""
    first = next(module.parameters()).detach().float().cpu().contiguous()
    digest = hashlib.sha256(first.numpy().tobytes()).digest()
    stream = torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))
    return torch.rand(length(dataset), generator=stream)


def after_sam(**changes: Any) -> SharpBalance:
    """Return SharpBalance after SAM, whatever the library's default is by now."""
    return SharpBalance(**{"rho": RHO, "before": "sam", **changes})


def late(rho: float) -> SharpBalance:
    """Return SharpBalance after a deep ensemble's first 0.85 of the run."""
    return SharpBalance(rho=rho, before="plain", switch_at=0.85)


METHODS: dict[str, Method] = {
    "sam": SAM(rho=RHO),
    "released": after_sam(),
    "paper": SharpBalance.paper(rho=RHO),
    "random": after_sam(score=random_scores),
    "refreshed": after_sam(refresh_every=5),
    "early_refreshed": after_sam(switch_at=0.1, refresh_every=5),
    "deep_ensemble": DeepEnsemble(),
    "late": SharpBalance(rho=RHO, before="plain"),
    "late_0.85": late(RHO),
    "sam_published_rho": SAM(rho=PUBLISHED_RHO),
    "released_published_rho": after_sam(rho=PUBLISHED_RHO),
    "late_0.85_published_rho": late(PUBLISHED_RHO),
    "sam_rho_0.02": SAM(rho=0.02),
    "late_rho_0.02": SharpBalance(rho=0.02, before="plain"),
    "late_rho_0.1": SharpBalance(rho=0.1, before="plain"),
}
OTHER_RADII = ("sam_rho_0.02", "late_rho_0.02", "late_rho_0.1")


@dataclass(frozen=True)
class Design:
    """What a decision asks for.

    Attributes:
        folder: Of its results, in ``docs/results/decisions``.
        dataset: What is learned.
        blocks: The seeds that members' seeds derive from.
        arms: What is trained in every block.
        epochs: Length of a run.
        width: Of the networks.
        severities: Of the corrupted copies in the exam.
        average: Share of the run, at its end, whose mean weights are examined beside
            the last ones, as an arm of their own.
        beside: The decision whose blocks these are, with arms that it did not have.
    """

    folder: str
    dataset: str
    blocks: tuple[int, ...]
    arms: tuple[str, ...] = ("sam", "released", "paper", "deep_ensemble", "late")
    epochs: int = 40
    width: int = 32
    severities: tuple[int, ...] = SEVERITIES
    average: float | None = None
    beside: str | None = None

    def first_part(self, arm: str, epochs: int) -> tuple[str, int]:
        """Return the arm that an arm trains as at first, and until which epoch.

        The arm that others leave goes with those that leave it last.
        """
        method, until = METHODS[arm].prefix(epochs)
        family = next(name for name, known in METHODS.items() if known == method)
        if arm != family:
            return family, until
        beginnings = [METHODS[name].prefix(epochs) for name in self.arms]
        ends = [end for first, end in beginnings if first == method and end < epochs]
        return family, max(ends, default=epochs // 2)

    def ends(self, arm: str) -> dict[str, bool]:
        """Return as which arms a run is examined, each with whether it is averaged."""
        return {arm: False} | ({f"{arm}_averaged": True} if self.average else {})


DESIGNS = {
    "002": Design("002_which_rule", "cifar10", (2, 3, 4, 5, 6)),
    "004": Design("004_hundred_classes", "cifar100", (12, 13, 14)),
    "medium": Design(
        "004_hundred_classes_more",
        "cifar100",
        (27, 28),
        ("sam", "released", "paper", "deep_ensemble"),
    ),
    "medium_sam": Design(
        "004_hundred_classes_more", "cifar100", (42, 43), ("sam", "deep_ensemble")
    ),
    "005": Design(
        "005_random_scores", "cifar10", tuple(range(15, 27)), ("released", "random")
    ),
    "007": Design(
        "007_headline",
        "cifar10",
        (29, 30, 31),
        (
            "deep_ensemble",
            "late_0.85_published_rho",
            "late_0.85",
            "sam_published_rho",
            "released_published_rho",
            "sam",
            "released",
        ),
        epochs=200,
        width=64,
        severities=(1, 2, 3, 4, 5),
    ),
    "007_default": Design(
        "007_headline",
        "cifar10",
        (29, 30),
        ("late", "deep_ensemble"),
        epochs=200,
        width=64,
        severities=(1, 2, 3, 4, 5),
    ),
    "008": Design(
        "008_averaging",
        "cifar10",
        tuple(range(32, 37)),
        ("deep_ensemble", "late", "sam", "released"),
        average=0.25,
    ),
    "009": Design(
        "009_refresh",
        "cifar10",
        tuple(range(37, 42)),
        ("released", "refreshed", "early_refreshed"),
    ),
    "012": Design(
        "012_radius_again",
        "cifar10",
        tuple(range(32, 37)),
        OTHER_RADII,
        beside="008",
    ),
    "012_hundred": Design(
        "012_radius_again_hundred",
        "cifar100",
        (12, 13, 14),
        OTHER_RADII,
        beside="004",
    ),
}
