"""What studies are planned with: how comparisons vary, and effects that are assumed."""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache

from tepui.papers.published import published

# The standard deviation of a comparison between units, by its name.
Noise = Callable[[str], float]


def by_word(noise: Mapping[str, float]) -> Noise:
    """Return the noise of the first word that is in a comparison's name."""
    return lambda where: next(sd for word, sd in noise.items() if word in where)


def product_of(*words: Iterable[str]) -> list[str]:
    """Return names of all combinations of words.

    Example:
        >>> product_of(["ece", "nll"], ["of sam"])
        ['ece of sam', 'nll of sam']
    """
    names = [""]
    for several in words:
        names = [f"{name} {word}".strip() for name in names for word in several]
    return names


@cache
def _printed_errors() -> dict[tuple[str, str, str], float]:
    """Return standard deviations between networks, by table, method and metric.

    The paper prints standard errors over ten, rounded: at least half a digit.
    """
    rows = [row for row in published() if "n_models" in row]
    return {
        (row["item"].split("/")[1], row["method"], row["metric"]): math.sqrt(
            row["n_models"]
        )
        * (row["sem"] or HALF_A_DIGIT)
        for row in rows
    }


HALF_A_DIGIT = 5e-4
_AGAINST = re.compile(r"(\w+) (?:against the|less|against) (\w+)[,:] (\w+)")
_SHARPNESS = re.compile(r"(\w+) wins, its sharpness .*sharper by (\w+)")


def of_networks(where: str) -> float:
    """Return the noise of two networks' difference, from the paper's own errors."""
    errors, table = _printed_errors(), re.search(r"table\d", where)
    assert table is not None
    if sharper := _SHARPNESS.match(where):
        names = [sharper[1], "baseline"], sharper[2]
    else:
        against = _AGAINST.match(where)
        assert against is not None
        names = [against[1], against[2]], against[3]
    methods, metric = names
    return math.hypot(*(errors[table[0], method, metric] for method in methods))


# Differences between ensembles of three, ResNet-18 of width 32, 40 epochs on CIFAR-10,
# by the paper's rule and the released one.
BLOCKS = "decision 002: five blocks, both rules (8 degrees of freedom), CIFAR-10"
# SharpBalance and SAM have their first half in common.
BRANCHED = "sharpbalance against sam,"
CORRUPTED = {BRANCHED: 0.25, "": 0.52}
CLEAN = {BRANCHED: 0.115, "": 0.11}
# Of single members, and of the improvement rate of ensembles.
MEMBER_ACCURACY = {"_c,": 0.62, "": 0.26}
RATE = {"_c,": 0.0024, "": 0.0212}


def of_accuracy(where: str) -> float:
    """Return the noise of two ensembles' accuracies, on clean or corrupted data."""
    return by_word(CORRUPTED if "_c," in where else CLEAN)(where)


SMALL = "committed results of size small"
SHARED = "where ten ensembles shared a machine"
PLANNED = "results of size small at the time of planning"
OWN_ERRORS = "the paper's standard errors over ten networks, without pairs"
NO_TINY = "sharpbalance/figure7c", "sharpbalance/figure7f", "sharpbalance/table4"
DEAR = "more than can be paid for"
FIGURE_8 = "figure8a", "figure8b", "figure8c", "figure8d"
# The last is of SharpBalance by any rule.
OF_METHODS = "of deep_ensemble", "of sam", "of"
# The usual diversity, DER, is not named.
MEASURES = {
    "beta": 0.28,
    "diversity kl": 0.58,
    "diversity variance": 0.38,
    "measure worst_case_linf": 0.82,
    "measure average_case": 0.62,
    "measure worst_case_linf diversity kl": 1.01,
    "measure average_case diversity kl": 1.14,
}
# As printed: of networks by width, and of the one that was pruned by sparsity.
SLOPES = {
    "figure5a width 8": 0.58,
    "figure5a width 16": 0.54,
    "figure5a width 64": 0.33,
    "figure5a width 128": 0.28,
    "figure5b sparsity 0.8": 0.43,
    "figure5b sparsity 0.95": 0.47,
    "figure5b sparsity 0.99": 0.50,
}
# What SAM would add to the sharpness of small networks by the paper's shares, and the
# noise of what it adds.
RISES = {
    f"{control}_sam less {control}, {measure} at {place}, resnet18": rise
    for (place, measure), rises in {
        ("table1, cifar10", "fisher_rao"): {
            "baseline": (0.0337, 0.00092),
            "augmentation": (0.0809, 0.180),
            "weight_decay": (0.0206, 0.00043),
        },
        ("table1, cifar10", "sam_sharpness"): {
            "baseline": (0.00120, 0.000016),
            "weight_decay": (0.000726, 0.000031),
        },
        ("table1, cifar10", "relative_flatness"): {
            "baseline": (1.04, 0.048),
            "augmentation": (18.0, 9.23),
            "weight_decay": (0.58, 0.039),
        },
        ("table2, cifar100", "fisher_rao"): {
            "baseline": (0.215, 0.0157),
            "augmentation": (0.114, 0.0068),
            "weight_decay": (0.635, 0.0116),
        },
        ("table2, cifar100", "relative_flatness"): {
            "baseline": (138.8, 1.70),
            "augmentation": (27.5, 3.77),
            "weight_decay": (77.0, 1.19),
        },
    }.items()
    for control, rise in rises.items()
}
SETS = ("imagenet_c1", "imagenet_c5", "inaturalist", "openimages_o")
