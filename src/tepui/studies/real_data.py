"""What the data really were that results call by the names of a paper's data sets."""

from collections.abc import Iterable, Mapping
from typing import Any

STAND_INS = "stand-ins"  # of settings: what was used, by the paper's names
TRAINED_ON = "trained on"
CORRUPTED = "_c"  # ends the names of corrupted copies


def real_data(settings: Mapping[str, Any], dataset: str) -> str:
    """Return what was used for a data set of the paper; empty where it is not recorded.

    Example:
        >>> settings = {"cifar10": {"trained on": "Digits"}}
        >>> real_data(settings, "cifar10"), real_data(settings, "cifar10_c")
        ('Digits', 'corrupted Digits')
    """
    known = settings.get(STAND_INS, {})
    if dataset in known:
        return str(known[dataset])
    name, base = _trained_on(settings, dataset), dataset.removesuffix(CORRUPTED)
    return f"corrupted {name}" if name and base != dataset else name


def stand_ins(settings: Mapping[str, Any], datasets: Iterable[str]) -> str:
    """Return in words what was used for data of the paper; empty where nothing was.

    Example:
        >>> settings = {"cifar10": {"trained on": "CIFAR10"}}
        >>> stand_ins(settings, ["cifar10"])
        ''
        >>> stand_ins({"trained on": "Digits"}, ["cifar10", "cifar10_c"])
        'Digits for cifar10, corrupted Digits for cifar10_c'
    """
    names = dict.fromkeys(datasets)
    return ", ".join(
        f"{real_data(settings, name)} for {name}"
        for name in names
        if _is_replaced(settings, name)
    )


def _is_replaced(settings: Mapping[str, Any], dataset: str) -> bool:
    name = _trained_on(settings, dataset)
    plain = dataset.removesuffix(CORRUPTED).replace("_", "")
    return dataset in settings.get(STAND_INS, {}) or name.lower() not in ("", plain)


def _trained_on(settings: Mapping[str, Any], dataset: str) -> str:
    own = settings.get(dataset.removesuffix(CORRUPTED))
    about = own if isinstance(own, Mapping) else settings
    return str(about.get(TRAINED_ON, ""))
