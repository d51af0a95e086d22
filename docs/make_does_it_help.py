"""Write tables and picture of does_it_help.md from the results of the decisions.

PYTHONPATH=src:benchmarks python3 docs/make_does_it_help.py
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import make_averaging
import make_defaults
import make_headline
import make_how_late
import make_short_runs
import make_which_rule
from block_tables import Arms
from decision_designs import DESIGNS
from decision_runs import read
from defaults import named
from lead_picture import Study, drawn, leads
from make_claims import filled
from score_tables import IMAGES, Results, row, with_interval

from tepui.core.replacing import write_bytes
from tepui.methods import A2D, GSAM, SAM, SED, DivDis, Method, SharpBalance
from tepui.report.drawing import as_png
from tepui.studies.significance import paired_difference

DOCS = Path(__file__).parent
PLAIN = "deep_ensemble"
# Member-steps, a deep ensemble being 1 and a sharpness-aware step counting as two.
PRICES_002 = {PLAIN: 1.0, "sam": 2.0, "released": 2.0, "paper": 2.0, "late": 1.5}
PRICES_003 = {
    PLAIN: 1.0,
    "late_0.25": 1.75,
    "late_0.5": 1.5,
    "late_0.7": 1.3,
    "late_0.85": 1.15,
    "late_0.9": 1.1,
    "sam_0.85": 1.15,
}
LABELS_002 = {
    PLAIN: "deep ensemble",
    "sam": "SAM",
    "released": "SharpBalance after SAM",
    "paper": "SharpBalance, the paper's rule",
    "late": "SharpBalance from half on",
}
LABELS_003 = {
    PLAIN: "deep ensemble",
    **{f"late_{s}": f"SharpBalance from {s} on" for s in make_how_late.STARTS},
    "sam_0.85": "SAM from 0.85 on",
}
PRICES = {
    label: prices[arm]
    for labels, prices in ((LABELS_002, PRICES_002), (LABELS_003, PRICES_003))
    for arm, label in labels.items()
}
PRICES_007 = {
    make_headline.PLAIN: 1.0,
    make_headline.SAM: 2.0,
    make_headline.FULL: 2.0,
    make_headline.LATE: 1.15,
    "sam": 2.0,
    "released": 2.0,
    "late_0.85": 1.15,
    make_headline.DEFAULT: 1.5,
}
# What decisions 010 and 011 trained on images, and its price, as above. Today's
# defaults and values of papers or former ones.
IN_TWELVE_EPOCHS: dict[str, tuple[Method, float]] = {
    "SharpBalance, 0.05 (default)": (SharpBalance(rho=0.05, before="plain"), 1.5),
    "SharpBalance after SAM, 0.05": (SharpBalance(rho=0.05, before="sam"), 2),
    "SharpBalance after SAM, 0.02": (SharpBalance(rho=0.02, before="sam"), 2),
    "SharpBalance after SAM, 0.2": (SharpBalance(rho=0.2, before="sam"), 2),
    "SAM, 0.02 (default)": (SAM(rho=0.02), 2),
    "SAM, 0.05": (SAM(rho=0.05), 2),
    "GSAM, 0.02 (default)": (GSAM(rho=0.02), 2),
    "GSAM, 0.2": (GSAM(rho=0.2), 2),
    "SED, 0.03 (default)": (SED(weight=0.03, active=3), 1),
    "SED, 0.1, two of three": (SED(weight=0.1, active=2), 2 / 3),
    "A2D, 0.003 (default)": (A2D(weight=0.003), 2),
    "A2D, 0.1": (A2D(weight=0.1), 2),
    "DivDis, 0.003 (default)": (DivDis(weight=0.003, regularizer=0.003), 2),
    "DivDis, 10": (DivDis(weight=10.0, regularizer=10.0), 2),
}


class Score(NamedTuple):
    """A column of the tables."""

    of: Callable[[dict[str, Any]], float]
    digits: int


UNSCALED = "NLL, corrupted"
SCORES = {
    "clean, %": Score(lambda r: 100 * r["clean"]["accuracy"], 2),
    "corrupted, %": Score(lambda r: 100 * r["corrupted"]["accuracy"], 2),
    UNSCALED: Score(lambda r: r["corrupted"]["nll"], 3),
    "NLL, corrupted, scaled": Score(lambda r: r["scaled"]["corrupted"]["nll"], 3),
    "ECE, corrupted, scaled, %": Score(
        lambda r: 100 * r["scaled"]["corrupted"]["ece"], 2
    ),
}
# Of every ensemble in the files of decisions 010 and 011, with digits.
SHORT_SCORES: tuple[tuple[Callable[[make_defaults.Found], list[float]], int], ...] = (
    *(
        (partial(make_defaults.points, score=score), 2)
        for score in make_defaults.SCORES.values()
    ),
    (itemgetter("shifted_nll"), 3),
)
# Of decision 008's ensembles: those of 002 were not shown unfamiliar images.
DETECTION = Score(make_averaging.detection("entropy"), 3)


def main() -> None:
    page = DOCS / "does_it_help.md"
    text = page.read_text()
    for name, part in parts().items():
        text = filled(text, name, part)
    write_bytes(page, text.encode())
    studies = pictured()
    gains = leads(studies)
    cheapest_first = {
        f"{label} ({PRICES[label]:g} ×)": gains[label]
        for label in sorted(gains, key=lambda label: PRICES[label])
    }
    picture = drawn(cheapest_first, [study.name for study in studies])
    write_bytes(IMAGES / "does_it_help.png", as_png(picture))


def pictured() -> list[Study]:
    """Return the studies with five ensembles of each method on CIFAR-10."""
    halfway = LABELS_002 | {"late": LABELS_003["late_0.5"]}
    again = {arm: halfway[arm] for arm in make_averaging.RUNS}
    rules, averages = DESIGNS["002"].blocks, make_averaging.DESIGN.blocks
    arms = {
        "002": Arms(make_which_rule.results("002"), halfway, rules),
        "003": Arms(read(make_how_late.RESULTS), LABELS_003, make_how_late.BLOCKS),
        "008": Arms(read(make_averaging.RESULTS), again, averages),
    }
    return [Study(f"decision {n}", several, PLAIN) for n, several in arms.items()]


def parts() -> dict[str, str]:
    """Return the parts of the page that are written from numbers, by name."""
    rules = Arms(make_which_rule.results("002"), LABELS_002, DESIGNS["002"].blocks)
    late = Arms(read(make_how_late.RESULTS), LABELS_003, make_how_late.BLOCKS)
    detected = Arms(
        read(make_averaging.RESULTS), make_averaging.RUNS, make_averaging.DESIGN.blocks
    )
    found = {
        "methods": table(rules, PRICES_002, detected),
        "short": short(),
        "length": ensembles(read(make_headline.RESULTS)),
    }
    if late.complete == list(late.blocks):
        default = pooled(pictured(), late)
        return found | {"pooled": default, "late": table(late, PRICES_003)}
    count = f"{len(late.complete)} of {len(late.blocks)} blocks are trained"
    waiting = f"Not known yet: {count}, and the rule compares nothing before all are."
    return found | {"pooled": waiting, "late": waiting}


def pooled(studies: Sequence[Study], late: Arms) -> str:
    """Return the default's gain over the blocks of all studies, with its price.

    Args:
        studies: Those that trained it.
        late: The one that timed it alone on its card.
    """
    default, columns = LABELS_003["late_0.5"], ("clean, %", "corrupted, %")
    ours: list[dict[str, Any]] = []
    plain: list[dict[str, Any]] = []
    for _, arms, deep in studies:
        (arm,) = (arm for arm, label in arms.labels.items() if label == default)
        ours += arms.ensembles(arm)
        plain += arms.ensembles(deep)
    times = make_how_late.times(late, "late_0.5")
    seconds = f"{fmean(times):.2f} ({min(times):.2f} to {max(times):.2f})"
    cells = [_gain(ours, plain, SCORES[column]) for column in columns]
    lines = [
        row(f"n = {len(ours)}", "price in passes", "in seconds", *columns),
        "|---|--:|--:|" + "--:|" * len(columns),
        row("`SharpBalance()`", f"{PRICES_003['late_0.5']:g}", seconds, *cells),
    ]
    return "\n".join(lines)


def table(arms: Arms, prices: Mapping[str, float], detected: Arms | None = None) -> str:
    """Return the deep ensemble's scores, then the others' less the deep ensemble's.

    Where given, how well other ensembles of the arms detect unfamiliar images takes the
    place of likelihood without a temperature: a page has room for six scores.
    """
    shown = {name: score for name, score in SCORES.items() if name != UNSCALED}
    if detected is None:
        shown = SCORES
    names = [*shown, *(["OOD, AUROC"] if detected else [])]
    (count,) = {len(arms.ensembles(arm)) for arm in arms.labels}
    lines = [row(f"n = {count}", "price", *names), "|---|--:|" + "--:|" * len(names)]
    for arm, label in arms.labels.items():
        cells = [_cell(arms, arm, score) for score in shown.values()]
        if detected:
            known = arm in detected.labels
            cells.append(_cell(detected, arm, DETECTION) if known else "")
        lines.append(row(label, f"{prices[arm]:g}", *cells))
    return "\n".join(lines)


def short() -> str:
    """Return what every method gained in twelve epochs, by the number of ensembles.

    Of a method that was trained twice, with five and with fifteen, fifteen are shown.
    """
    files = make_defaults.runs_of("cifar10").values()
    pairs = make_defaults.pairs_of(list(files))
    pairs |= make_short_runs.complete("cifar10", make_short_runs.FOLDERS)
    return in_twelve_epochs(pairs)


def in_twelve_epochs(pairs: Mapping[str, make_defaults.Pair]) -> str:
    """Return rows of methods, below those of the deep ensembles they are held against.

    Args:
        pairs: By a method's name, with its radius or weights.
    """
    heads = ("clean, %", "corrupted, %", UNSCALED)
    lines = [row("", "n", "price", *heads), "|---|--:|--:|" + "--:|" * len(heads)]
    found = {
        label: pairs[named(method)] for label, (method, _) in IN_TWELVE_EPOCHS.items()
    }
    numbers = {label: len(pair.plain["accuracy"]) for label, pair in found.items()}
    for number in sorted(set(numbers.values()), reverse=True):
        several = {label: found[label] for label in found if numbers[label] == number}
        first, *others = (
            [of(pair.plain) for of, _ in SHORT_SCORES] for pair in several.values()
        )
        if any(other != first for other in others):
            raise ValueError(f"{number} ensembles must be held against the same ones")
        digits = [each for _, each in SHORT_SCORES]
        means = zip(map(fmean, first), digits, strict=True)
        cells = [f"{mean:.{each}f}" for mean, each in means]
        lines.append(row("deep ensemble", number, 1, *cells))
        for label, pair in several.items():
            cells = [
                _signed(with_interval(paired_difference(*map(of, pair)), each))
                for of, each in SHORT_SCORES
            ]
            _, price = IN_TWELVE_EPOCHS[label]
            lines.append(row(label, number, f"{price:.2g}", *cells))
    return "\n".join(lines)


def ensembles(results: Results) -> str:
    """Return the scores of every ensemble of decision 007."""
    lines = [row("", "block", "price", *SCORES), "|---|--:|--:|" + "--:|" * len(SCORES)]
    labels = make_headline.LABELS
    arms = Arms(results, labels, make_headline.DESIGN.blocks)
    for arm, label in labels.items():
        for result in arms.ensembles(arm):
            cells = [
                f"{score.of(result):.{score.digits}f}" for score in SCORES.values()
            ]
            price = f"{PRICES_007[arm]:g}"
            lines.append(row(label, str(result["block"]), price, *cells))
    return "\n".join(lines)


def _cell(arms: Arms, arm: str, score: Score) -> str:
    plain = arms.ensembles(PLAIN)
    if arm == PLAIN:
        return f"{fmean(map(score.of, plain)):.{score.digits}f}"
    return _gain(arms.ensembles(arm), plain, score)


def _gain(ours: Results, plain: Results, score: Score) -> str:
    both = (list(map(score.of, several)) for several in (ours, plain))
    return _signed(with_interval(paired_difference(*both), score.digits))


def _signed(text: str) -> str:
    return text if text.startswith("−") else f"+{text}"


if __name__ == "__main__":
    main()
