"""The page for those who must decide shows what the committed results say."""

import importlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
from scipy import stats

from tepui.core.seeding import generator
from tepui.methods import SED, SharpBalance
from tepui.methods.coupled import CoupledMethod
from tepui.methods.sharpness_aware import SharpnessAware

ROOT = Path(__file__).parents[1]
MINUS = chr(0x2212)


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    monkeypatch.syspath_prepend(ROOT / "docs")
    return importlib.import_module("make_does_it_help")


def test_the_page_is_what_its_script_writes(script):
    page = (ROOT / "docs" / "does_it_help.md").read_text()
    for name, part in script.parts().items():
        assert f"<!-- {name} -->\n\n{part}\n<!-- end of {name} -->" in page


def test_cells_are_students_intervals_of_pairs(script):
    values = {"deep_ensemble": [70.0, 70.4, 69.9], "late_0.9": [70.3, 70.5, 70.4]}
    found = [
        {"arm": arm, "block": n, "corrupted": {"accuracy": value / 100}}
        for arm, several in values.items()
        for n, value in enumerate(several)
    ]
    arms = script.Arms(found, script.LABELS_003, range(3))
    cell = script._cell(arms, "late_0.9", script.SCORES["corrupted, %"])
    apart = [a - b for a, b in zip(*reversed(values.values()), strict=True)]
    low, high = stats.ttest_1samp(apart, 0).confidence_interval(0.95)
    expected = f"+{sum(apart) / 3:.2f} ({low:.2f} to {high:.2f})"
    assert cell == expected.replace("-", MINUS)


def unfamiliar_to(arm, values):
    return [
        {"arm": arm, "block": n, "unfamiliar": {"cifar100": {"entropy": value}}}
        for n, value in enumerate(values)
    ]


def scored(arm, block):
    return {
        "arm": arm,
        "block": block,
        "clean": {"accuracy": 0.93 + block / 1000},
        "corrupted": {"accuracy": 0.7, "nll": 1.1},
        "scaled": {"corrupted": {"nll": 1.0, "ece": 0.1}},
    }


def test_methods_have_their_number_and_detection_by_other_ensembles(script):
    plain, sam = [0.881, 0.884, 0.885], [0.888, 0.889, 0.888]
    labels = {"deep_ensemble": "deep ensemble", "sam": "SAM", "paper": "paper's"}
    rules = script.Arms([scored(a, n) for a in labels for n in (2, 3)], labels, (2, 3))
    two = {arm: labels[arm] for arm in ("deep_ensemble", "sam")}
    found = unfamiliar_to("sam", sam) + unfamiliar_to("deep_ensemble", plain)
    shown = script.table(rules, script.PRICES_002, script.Arms(found, two, range(3)))
    apart = [a - b for a, b in zip(sam, plain, strict=True)]
    low, high = stats.ttest_1samp(apart, 0).confidence_interval(0.95)
    last = f"+{sum(apart) / 3:.3f} ({low:.3f} to {high:.3f})".replace("-", MINUS)
    head, _, *rows = [line.split(" | ") for line in shown.splitlines()]
    assert (head[0], head[-1]) == ("| n = 2", "OOD, AUROC |")
    assert "NLL, corrupted" not in head
    assert "NLL, corrupted, scaled" in head
    assert [line[-1] for line in rows] == ["0.883 |", f"{last} |", " |"]


def test_the_table_without_unfamiliar_images_has_no_column_for_them(script):
    (part,) = [part for name, part in script.parts().items() if name == "late"]
    assert "OOD" not in part


def test_the_gain_of_the_default_is_that_of_three_decisions_files(script):
    folder = ROOT / "docs" / "results" / "decisions"
    arms = {
        "002_which_rule": "late",
        "003_how_late": "late_0.5",
        "008_averaging": "late",
    }

    def gains(data):
        return [
            100 * (score(file, data) - score(plain, data))
            for study, arm in arms.items()
            for file in (folder / study).glob(f"*_block*_{arm}.json")
            for plain in [file.with_name(file.name.replace(arm, "deep_ensemble"))]
        ]

    def score(file, data):
        return json.loads(file.read_text())[data]["accuracy"]

    (found,) = script.parts()["pooled"].splitlines()[2:]
    shown = []
    for data in ("clean", "corrupted"):
        values = gains(data)
        assert len(values) == 15
        low, high = stats.ttest_1samp(values, 0).confidence_interval(0.95)
        shown.append(f"{sum(values) / 15:+.2f} ({low:.2f} to {high:.2f})")
    cells = " | ".join(shown).replace("-", MINUS)
    assert found.endswith(f"| 1.5 | 1.68 (1.61 to 1.75) | {cells} |")


def test_prices_are_those_of_the_rule(script):
    page = (ROOT / "docs" / "decisions" / "003_how_late.md").read_text()
    rule = page.partition("## Answer")[0]
    for arm, price in script.PRICES_003.items():
        named = {"deep_ensemble": "deep ensemble", "sam_0.85": "SAM, 0.85"}
        label = named.get(arm, arm.removeprefix("late_"))
        (line,) = [x for x in rule.splitlines() if x.startswith(f"| {label} |")]
        assert line.endswith(f"| {price:g} |")


def short_rows(text):
    """Return the cells of the rows of the table of twelve epochs."""
    return [line.strip("| ").split(" | ") for line in text.splitlines()[2:]]


def test_in_twelve_epochs_rows_are_below_the_deep_ensembles_of_their_seeds(script):
    def found(lead, count, **own):
        clean = [0.86 + lead * n / 100 for n in range(count)]
        scores = {"shifted_accuracy": [0.66] * count, "shifted_nll": [1.05] * count}
        return {"accuracy": clean, **scores, **own}

    methods = script.IN_TWELVE_EPOCHS
    few = [label for label in methods if label.startswith(("SED", "A2D"))]
    pairs = {
        script.named(method): script.make_defaults.Pair(
            found(1, 3 if label in few else 4),
            found(0, 3 if label in few else 4, members=label),
        )
        for label, (method, _) in methods.items()
    }
    rows = short_rows(script.in_twelve_epochs(pairs))
    many = [label for label in methods if label not in few]
    assert [row[0] for row in rows] == ["deep ensemble", *many, "deep ensemble", *few]
    assert rows[0][1:] == ["4", "1", "86.00", "66.00", "1.050"]
    low, high = stats.ttest_1samp([0, 1, 2], 0).confidence_interval(0.95)
    shown = f"+1.00 ({low:.2f} to {high:.2f})".replace("-", MINUS)
    assert rows[-1][:4] == ["A2D, 0.1", "3", "2", shown]
    pairs[script.named(methods["A2D, 0.1"][0])].plain["accuracy"][0] = 0.5
    with pytest.raises(ValueError, match="3 ensembles must be held against the same"):
        script.in_twelve_epochs(pairs)


def test_in_twelve_epochs_leads_are_those_of_the_decisions(script):
    pages = {5: "010_defaults", 15: "011_short_runs"}
    texts = {
        number: (ROOT / "docs" / "decisions" / f"{page}.md").read_text()
        for number, page in pages.items()
    }
    rows = short_rows(script.parts()["short"])
    for label, number, _, clean, corrupted, _ in rows:
        if label == "deep ensemble":
            continue
        method = script.named(script.IN_TWELVE_EPOCHS[label][0])
        cells = f"| {clean} | {corrupted} |".replace("+", "")
        assert f"\n| `{method}` {cells}" in texts[int(number)]
    assert len(rows) == len(script.IN_TWELVE_EPOCHS) + 2


def gradients_per_step(method, members):
    """Return how many gradients a member takes in a step, on average over members."""
    flat = isinstance(method, SharpnessAware | SharpBalance)
    flat = flat or getattr(method, "base", None) is not None
    gradients = (2.0 if flat else 1.0) * (2 if method.needs_unlabeled else 1)
    if not isinstance(method, CoupledMethod):
        return gradients
    turn = method.turn(members, 0.5, generator(0, "price"))
    return gradients * (len(turn.active) + len(turn.observed) / 3) / members


def test_in_twelve_epochs_defaults_and_prices_are_those_of_the_methods(script):
    kinds = set()
    for label, (method, price) in script.IN_TWELVE_EPOCHS.items():
        usual = type(method)()
        all_members = {"active": 3} if isinstance(usual, SED) else {}
        default = method == replace(usual, **all_members)
        assert default == label.endswith("(default)")
        if default:
            kinds.add(type(method).__name__)
        # The sets of SharpBalance begin at half; a step of them counts as two.
        plainly = getattr(method, "before", "") == "plain"
        assert price == (1.5 if plainly else gradients_per_step(method, 3))
    assert kinds == {"SharpBalance", "SAM", "GSAM", "SED", "A2D", "DivDis"}


def test_every_ensemble_of_the_paper_s_length_has_a_row(script):
    found = [
        {
            "arm": arm,
            "block": block,
            "clean": {"accuracy": 0.955},
            "corrupted": {"accuracy": 0.76, "nll": 0.9},
            "scaled": {"corrupted": {"nll": 0.85, "ece": 0.09}},
        }
        for block in (30, 29)
        for arm in ("late_0.85", "deep_ensemble")
    ]
    rows = script.ensembles(found).splitlines()[2:]
    assert [line.split(" | ")[:3] for line in rows] == [
        ["| deep ensemble", "29", "1"],
        ["| deep ensemble", "30", "1"],
        ["| late SharpBalance, 0.05", "29", "1.15"],
        ["| late SharpBalance, 0.05", "30", "1.15"],
    ]
    assert rows[0].endswith("| 95.50 | 76.00 | 0.900 | 0.850 | 9.00 |")


def test_prices_of_the_paper_s_length_are_those_of_the_rule(script):
    page = (ROOT / "docs" / "decisions" / "007_headline.md").read_text()
    rule = page.partition("## Answer")[0]
    labels = script.make_headline.DECIDING | script.make_headline.BESIDE
    assert labels.keys() == script.PRICES_007.keys()
    for arm, label in labels.items():
        lines = [x for x in rule.splitlines() if x.startswith(f"| {label} |")]
        assert lines[0].endswith(f"| {script.PRICES_007[arm]:g} |")


def test_the_picture_has_every_gain_of_the_tables(script):
    studies = script.pictured()
    gains = script.leads(studies)
    lines = [line for part in script.parts().values() for line in part.splitlines()]
    seen = 0
    for several in gains.values():
        for lead in several:
            cells = [
                f"{gain.mean:+.2f} ({gain.low:.2f} to {gain.high:.2f})"
                for gain in lead.by.values()
            ]
            row = " | ".join(cells).replace("-", MINUS)
            seen += any(row in line for line in lines)
    of_tables = sum(len(study.arms.labels) - 1 for study in studies[:2])
    assert seen == of_tables
    figure = script.drawn(gains, [study.name for study in studies])
    rows = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert rows == [*gains]
    marks = sum(len(several) for several in gains.values())
    assert [len(axis.containers) for axis in figure.axes] == [marks, marks]
