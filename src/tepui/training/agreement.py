"""Whether all processes of a run were told the same, compared before it begins."""

from collections.abc import Mapping
from typing import Any

import torch

from tepui.core.agreement import check_same
from tepui.core.storage import raw_bytes
from tepui.core.version import __version__
from tepui.ensembles.ensemble import Ensemble
from tepui.modules.state import tensor_state
from tepui.training.exchange import Exchange


def check_agreement(
    exchange: Exchange, config: Mapping[str, Any], ensemble: Ensemble
) -> None:
    """Raise on every rank alike unless all were told ``config`` and have the members.

    Every rank writes its own members into one folder: ranks that differ would make a
    run which is none of theirs.
    """
    members = [_checksums(ensemble, index) for index in range(len(ensemble))]
    versions = {"torch": torch.__version__, "tepui": __version__}
    check_same(exchange.everywhere({**versions, **config, "members": members}))


def _checksums(ensemble: Ensemble, index: int) -> dict[str, str]:
    """Return shape and sum of bytes of a member's tensors, the same on any machine."""
    return {
        name: f"{tuple(tensor.shape)}, bytes {int(raw_bytes(tensor).sum())}"
        for name, tensor in tensor_state(ensemble.members[index]).items()
    }
