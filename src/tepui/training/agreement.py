"""Whether all processes of a run were told the same, compared before it begins."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.utils.data import Dataset

from tepui.core.agreement import check_same
from tepui.core.version import __version__
from tepui.data.identity import tensors_hash
from tepui.data.loading import as_arrays
from tepui.data.stored import StoredData
from tepui.ensembles.ensemble import Ensemble
from tepui.modules.state import tensor_state
from tepui.training.exchange import Exchange


def check_agreement(
    exchange: Exchange,
    config: Mapping[str, Any],
    ensemble: Ensemble,
    dataset: Dataset[Any],
) -> None:
    """Raise on every rank alike unless all were told and have the same.

    Every rank writes its own members into one folder: ranks that differ would make a
    run which is none of theirs.
    """
    data, members = dict(config["data"]), [_hashes(m) for m in ensemble.members]
    if as_arrays(dataset) is None and not isinstance(dataset, StoredData):
        data["hashes"] = ensemble.trained_on  # nothing else tells their order
    versions = {"torch": torch.__version__, "tepui": __version__}
    check_same(
        exchange.everywhere({**versions, **config, "data": data, "members": members})
    )


def _hashes(member: nn.Module) -> dict[str, str]:
    """Return shape and hash of a member's tensors, the same on any machine."""
    return {
        name: f"{tuple(tensor.shape)}, sha256 {tensors_hash({name: tensor})[:16]}"
        for name, tensor in tensor_state(member).items()
    }
