"""What trackers show of a run, by name."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tepui.training import EpochRecord

PER_MEMBER = (
    *("loss", "learning_rate"),
    *("validation_loss", "validation_accuracy", "validation_rmse"),
)
OF_ALL = ("joint_loss", "samples_per_second")


def figures(record: EpochRecord) -> dict[str, float]:
    """Return the figures of an epoch, those of members by their numbers from 0.

    Example:
        >>> record = EpochRecord(0, (0.5, None), (0.1, 0.1), (), 1.0, 64.0)
        >>> figures(record)["loss/member 0"], "loss/member 1" in figures(record)
        (0.5, False)
    """
    found = {
        f"{name}/member {member}": value
        for name in PER_MEMBER
        for member, value in enumerate(getattr(record, name))
    }
    found |= {name: getattr(record, name) for name in OF_ALL}
    return {name: float(value) for name, value in found.items() if value is not None}


def flat(config: Mapping[str, Any]) -> dict[str, str]:
    """Return a configuration as text under plain names, lists as JSON.

    Example:
        >>> flat({"method": {"class": "SAM", "rho": 0.1}, "seeds": [13], "<b>": None})
        {'method.class': 'SAM', 'method.rho': '0.1', 'seeds': '[13]', '_b_': 'None'}
    """
    return {re.sub(r"[^\w.-]", "_", name): text for name, text in _flat(config)}


def _flat(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and value:
        for name, item in value.items():
            yield from _flat(item, f"{place}.{name}" if place else str(name))
    elif isinstance(value, Mapping | list | tuple):
        yield place, json.dumps(value)
    else:
        yield place, str(value)
