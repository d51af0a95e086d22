"""Evaluations of one ensemble that add up: each brings further data sets.

Clean data are measured every time. The corrupted copies are one data set, and so is
each natural shift and each unfamiliar set; what an evaluation does not bring stays.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tepui.data.shifts import NATURAL
from tepui.evaluation.by_class import SHIFTED

COPIES = "corrupted copies"
# Of what is applied: whether it was fitted on the very test data.
FITTED_ON_TEST = "fitted_on_test"
# Whether tepui calibrate changed the ensemble after it was evaluated.
CALIBRATED_SINCE = "calibrated_since"
# What a document says of corrupted copies, and of what they were made.
_OF_COPIES = ("shifted", "severities")
_ABOUT_COPIES = ("cells", "strength", "seed", "copies")


def sets_in(document: Mapping[str, Any]) -> list[str]:
    """Return the data sets beside the clean one that an evaluation is on.

    Example:
        >>> cells = [{"type": "fog", "severity": 1}, {"type": "sketch", "severity": 0}]
        >>> sets_in({"cells": cells, "ood": {"noise": {}}})
        ['corrupted copies', 'sketch', 'noise']
    """
    cells = document["cells"]
    copies = [COPIES] if any(cell["severity"] != NATURAL for cell in cells) else []
    natural = [cell["type"] for cell in cells if cell["severity"] == NATURAL]
    return [*copies, *natural, *document["ood"]]


def others_of_a_name(
    document: Mapping[str, Any], about: Mapping[str, Any], asked: Sequence[str]
) -> list[str]:
    """Return the names of data sets that an evaluation has of other data.

    Example:
        >>> known = {"cells": [], "ood": {"far": {}}, "about": {"ood": {"far": "1"}}}
        >>> others_of_a_name(known, {"ood": {"far": "2"}}, ["far"])
        ['far']
    """
    known = document.get("about", {})

    def of(about: Mapping[str, Any], name: str) -> list[Any]:
        if name == COPIES:
            return [about.get(part) for part in _ABOUT_COPIES]
        return [about.get(kind, {}).get(name) for kind in ("natural", "ood")]

    there = {*sets_in(document)} & {*asked}
    return [
        name for name in asked if name in there and of(known, name) != of(about, name)
    ]


def calibrated_since(document: Mapping[str, Any], changed: bool) -> dict[str, Any]:
    """Return an evaluation that says whether its ensemble was calibrated after it.

    Example:
        >>> outdated = calibrated_since({"clean": {}}, True)
        >>> outdated, calibrated_since(outdated, False)
        ({'clean': {}, 'calibrated_since': True}, {'clean': {}})
    """
    kept = {name: part for name, part in document.items() if name != CALIBRATED_SINCE}
    return {**kept, CALIBRATED_SINCE: True} if changed else kept


def without_applied(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return an evaluation without what calibration and conformal sets gave.

    Example:
        >>> of = {"rule": "probability", "calibration": "4f2a"}
        >>> without_applied({"of": of, "clean": {}, "applied": {}})
        {'of': {'rule': 'probability'}, 'clean': {}}
    """
    of_calibration = ("applied", CALIBRATED_SINCE)
    kept = {name: part for name, part in document.items() if name not in of_calibration}
    if "of" in kept:
        kept["of"] = {k: v for k, v in kept["of"].items() if k != "calibration"}
    return kept


def fitted_on_test(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return an evaluation that says that its test data are those of the calibration.

    Example:
        >>> fitted_on_test({"applied": {"clean": {}}})
        {'applied': {'clean': {}, 'fitted_on_test': True}}
    """
    return {**document, "applied": {**document["applied"], FITTED_ON_TEST: True}}


def added(before: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return an evaluation with what an earlier one of the same ensemble is on beside.

    Args:
        before: The earlier one, as its file holds it.
        new: The later one, whose data sets replace those of the same names.

    Returns:
        Both, in the form of one.
    """
    brought = sets_in(new)
    keeps_copies = COPIES not in brought and COPIES in sets_in(before)
    cells = [
        cell
        for cell in before["cells"]
        if (cell["type"] not in brought if _is_natural(cell) else keeps_copies)
    ]
    document = {**new, "cells": [*cells, *new["cells"]]}
    document["ood"] = {**before["ood"], **new["ood"]}
    document["histograms"] = _histograms(before["histograms"], new["histograms"])
    document |= _classes(before, new)
    document["about"] = _about(before["about"], new["about"], keeps_copies)
    if keeps_copies:
        document |= {name: before[name] for name in _OF_COPIES}
        pooled = {k: v for k, v in before["reliability"].items() if k == "shifted"}
        document["reliability"] = {**new["reliability"], **pooled}
    if "applied" in new and "applied" in before:
        document["applied"] = _applied(before["applied"], new["applied"], keeps_copies)
    return document


def _is_natural(cell: Mapping[str, Any]) -> bool:
    return bool(cell["severity"] == NATURAL)


def _about(
    before: Mapping[str, Any], new: Mapping[str, Any], keeps_copies: bool
) -> dict[str, Any]:
    about = dict(new)
    if keeps_copies:
        about |= {name: before[name] for name in _ABOUT_COPIES if name in before}
    for kind in ("natural", "ood"):
        if both := {**before.get(kind, {}), **new.get(kind, {})}:
            about[kind] = both
    return about


def _applied(
    before: Mapping[str, Any], new: Mapping[str, Any], keeps_copies: bool
) -> dict[str, Any]:
    applied = dict(new)
    if keeps_copies:
        applied["severities"] = before["severities"]
    if natural := {**before.get("natural", {}), **new.get("natural", {})}:
        applied["natural"] = natural
    return applied | _classes(before, new)


def _classes(before: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return scores of classes on all natural shifts, nothing without any."""
    both = {**before.get(SHIFTED, {}), **new.get(SHIFTED, {})}
    return {SHIFTED: both} if both else {}


def _histograms(before: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return how scores are distributed on all unfamiliar sets."""
    joined = {**before, **new}
    for score in before.keys() & new.keys():
        sets = {**before[score]["ood"], **new[score]["ood"]}
        joined[score] = {**new[score], "ood": sets}
    return joined
