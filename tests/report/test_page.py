"""The page of made-up comparisons: three answers, and what folds away."""

import math
import re
from base64 import b64encode
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from rich.console import Console

from report_cases import (
    comparison,
    evaluation,
    method,
    shown,
    text,
    with_records,
    words,
)
from tepui.report import printed_table, write_report
from tepui.report.applied import applied_parts
from tepui.report.by_class import class_parts
from tepui.report.comparison import Comparison
from tepui.report.contrasts import method_sentence
from tepui.report.cost import epochs_of, price_table
from tepui.report.heat_map import heat_maps
from tepui.report.loading import LoadedReports, ReportSource, Study
from tepui.report.measures import ACCURACY
from tepui.report.page import page_text
from tepui.report.reliability import pooled_bins
from tepui.report.scores import GUESS, failures, gain_sentence, scores_figure
from tepui.report.sections import claim
from tepui.report.unfamiliar import auroc_table
from tepui.studies.results import Record, Results
from tepui.training.history import EpochRecord, History, Outcome

MINUS, DASH = chr(0x2212), chr(0x2013)
EVIL = "<script>alert('x')</script>"
COST = {"parameters": 2_500_000, "bytes": 10 * 2**20, "operations": 3_000_000}
COST |= {"seconds": 0.004, "peak_bytes": None, "device": "cpu, 2 threads"}


def page_of(made):
    return text(shown(made))


def in_terminal(made):
    console = Console(width=160, record=True, file=open("/dev/null", "w"))  # noqa: PTH123, SIM115
    console.print(printed_table(made))
    console.file.close()
    return console.export_text()


def test_the_table_shows_means_and_students_intervals():
    found = in_terminal(comparison())
    # Accuracies .90 and .91: mean 90.5 %, standard error half a point, and Student's
    # quantile with one degree of freedom, 12.706.
    below = r".*\n\s+79.15 to 91.85\s+84.15 to 96.85"
    assert re.search(rf"clean\s+Plain\s+85.50\s+90.50{below}", found)
    # Accuracies end at 100; sharpness is of the training data.
    assert re.search(r"clean\s+Flat\s+87.50\s+92.50 .* 0\.350\s*\n", found)
    assert re.search(rf"corrupted\s+Flat .* {DASH}\s*\n", found)
    assert " to " not in in_terminal(comparison(ensembles=1))
    best = comparison(labels=("A", "B", "C", "D", "E"))  # .98 and .99
    assert "92.15 to 100" in in_terminal(best)


def test_the_three_questions_stand_open_and_the_rest_is_folded():
    page = page_of(with_records(comparison()))
    titles = re.findall(r"<h2 id=\"[^\"]*\">([^<]*)</h2>", page)
    assert titles[:3] == [
        "Is the ensemble better than one network?",
        "When can it be trusted?",
        "Which method is better?",
    ]
    folded = re.findall(r'class="folded"><details><summary><h2[^>]*>([^<]*)<', page)
    assert folded == titles[3:]
    assert {"Differences", "All scores", "Members", "Reproduce"} - {*folded} == {
        "Members"  # of which nothing is known
    }
    alone = page_of(with_records(comparison(labels=("Plain",))))
    assert "Which method" not in alone
    assert ">Differences</h2>" not in alone


@pytest.mark.parametrize(
    ("interval", "note", "answer", "told"),
    [
        ((0.01, 0.03), "", "Yes: on corrupted", "accuracy less Plain's"),
        ((0.01, 0.03), "hint", "Probably: on", "A hint only"),
        ((-0.03, -0.01), "hint", "Probably not: on", "A hint only"),
        ((-0.03, -0.01), "", "No: on", "accuracy less Plain's"),
        ((-0.01, 0.03), "hint", "Not shown: on", "None can be told from Plain"),
        (None, "hint", "Not shown: on", "that takes 3 seeds and 300 test samples"),
    ],
)
def test_an_answer_follows_from_its_record(interval, note, answer, told):
    made = with_records(comparison(), interval, note)
    said = gain_sentence(made)
    assert said.startswith(answer)
    assert "accuracy is 70.5 %, one member's 65.5 %: +5.0 points (" in said
    if interval:
        low, high = (f"{100 * end:+.1f}".replace("-", MINUS) for end in interval)
        assert said.endswith(f"(95 % interval {low} to {high}).")
    assert told in method_sentence(made)
    assert claim(made) == f"{said} {method_sentence(made)}"
    page = page_of(made)
    assert said.replace(" %", "\u00a0%") in unescape(page)
    apart = interval is not None and interval[0] * interval[1] > 0
    assert ("interval apart" in page) == apart


def test_methods_are_compared_at_the_price_that_they_paid():
    made = with_records(comparison())
    assert "at their own prices" in method_sentence(made)
    equal = with_records(comparison(equal="gradients"))
    assert "at equal gradients" in method_sentence(equal)


def test_without_records_no_interval_is_claimed():
    said = claim(comparison())
    assert "No two methods share the seeds" in said
    assert "Yes" not in said


def test_no_number_stands_twice_with_two_values():
    """What the pictures say of a method is what the tables say of it."""
    made = with_records(comparison(labels=("Plain", "Flat", "Calm"), ensembles=3))
    page = unescape(page_of(made))
    said = re.findall(
        r'aria-label="(\w+), (clean|corrupted) data: ([\d.]+) → ([\d.]+) %', page
    )
    assert len(said) == 6
    table = page[page.index("By data and method") :].split("</table>")[0]
    groups = dict(zip(("clean", "corrupted"), table.split("<tbody>")[1:], strict=True))
    for label, data, member, whole in said:
        row = re.search(rf">{label}</th><td>([\d.]+).*?<td>([\d.]+)", groups[data])
        assert [f"{float(v):.1f}" for v in row.groups()] == [member, whole]
    # Differences of the leading score are in the picture, all others in the table.
    others = page[page.index("Other differences") :].split("</table>")[0]
    assert "nsemble accuracy" not in others
    for label, _, size in re.findall(
        r'aria-label="(\w+), (clean|corrupted) data: (.[\d.]+) points, 95', page
    ):
        assert f">{size} points</b>" in page, label


def test_names_are_escaped_and_the_page_refers_to_nothing_outside(tmp_path):
    sets = {"samples": 50, "sizes": [20, 30], "overlaps": [[1.0, 0.25], [0.25, 1.0]]}
    own = evaluation(by_class={**RATES, "names": [EVIL, "b", "c"]})
    own["ood"] = {EVIL: {EVIL: {"auroc": 0.9}}}
    own["mistakes"] = {EVIL: {"auroc": 0.9}}
    several = (
        method(label, own, own, outcome=Outcome(summary=sets)) for label in (EVIL, "B")
    )
    told = {"model": EVIL}
    made = Comparison(tuple(replace(each, training=told) for each in several))
    page = write_report(shown(with_records(made), EVIL), tmp_path).read_text()
    assert "<script" not in page
    assert page.count("&lt;script&gt;") >= 20
    assert page.count("<svg") == page.count("</svg>")
    assert re.findall(r'(?:src|href)\s*=\s*"(?!#|data:)([^"]*)', page) == []
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    # Random sets of 40 and 60 %: .24 / .76.
    assert "<td>20 (40 %)</td><td>0.25</td><td>0.32</td>" in page
    again = write_report(shown(with_records(made), EVIL), tmp_path / "b").read_text()
    assert again == page


@pytest.mark.parametrize("count", [1, 2, 9])
def test_any_number_of_methods_is_shown(count):
    labels = [f"method {n}" for n in range(count)]
    page = page_of(with_records(comparison(labels=labels, ensembles=3)))
    assert all(page.count(f">{label}") >= 3 for label in labels)
    assert not re.search(r'="nan|nan%|>nan', page)


def test_an_axis_of_accuracies_does_not_magnify():
    (trained,) = method("A", evaluation(0.9, {})).ensembles
    trained.evaluation["clean"]["individual_accuracy"] = 0.899  # and all together 0.9
    made = Comparison((replace(method("A"), ensembles=(trained,)),))
    drawn = str(scores_figure(made))
    ticks = [float(t) for t in re.findall(r'class="tick">([\d.]+)</text>', drawn)]
    assert max(ticks) - min(ticks) >= 2


def test_one_of_a_kind_is_told_in_the_singular():
    made = comparison(("Plain",), 1, members=1, epochs=1, samples=1)
    said = words(page_of(made))
    assert f"1 member {chr(0xD7)} 1 ensemble 1 epoch" in said


def test_every_method_has_its_own_epochs_in_the_heading():
    plain, flat = comparison(equal="gradients").methods
    longer = replace(plain, training={**plain.training, "epochs": 8})
    page = words(page_of(Comparison((longer, flat))))
    assert "epochs: Plain 8, Flat 4 at equal gradients" in page


def test_ensembles_that_were_stopped_say_after_how_many_epochs():
    ends = [
        Outcome(History([epoch(0, 1.0, None)] * n), (0, 1), stopped_by="Mine")
        for n in (2, 3)
    ]
    (own,) = comparison(("Plain",)).methods
    several = (
        replace(trained, outcome=end)
        for trained, end in zip(own.ensembles, ends, strict=True)
    )
    (said,) = (replace(own, ensembles=tuple(several)),)
    assert epochs_of(said) == "2 to 3 of 4"
    page = words(page_of(Comparison((said,))))
    assert "2 to 3 of 4 epochs weights of each member's best epoch kept" in page
    assert epochs_of(replace(own, training={})) == ""


def test_natural_shifts_stand_beside_corruptions_not_among_them():
    cells = {("fog", 1): 0.8, ("sketch", 0): 0.3}
    made = Comparison((method("A", evaluation(0.9, cells)),))
    page = page_of(made)
    assert "Sketch test data" in page
    heat = page[page.index("Every corruption") :]
    assert "sketch" not in heat[: heat.index("</figure>")]


def test_corruptions_show_means_and_what_training_had_seen():
    cells = {("fog", 1): 0.8, ("fog", 5): 0.4, ("jpeg_compression", 1): 0.7}
    made = Comparison((method("A", evaluation(0.9, cells)),))
    (trained,) = made.methods[0].ensembles
    trained.evaluation["cells"][0]["seen_in_training"] = True
    table = str(heat_maps(made, ACCURACY))
    cells = re.findall(">([^<>]+)</t[dh]>", table.split("<tbody>")[1])
    fog = ["fog (seen in training)", "80", "40", "60"]
    assert cells == [
        *fog,
        "jpeg compression",
        "70",
        DASH,
        "70",
        "mean",
        "75",
        "40",
        "63",
    ]
    assert 'style="--v:60">40' in table  # the more, the worse


def test_reliability_pools_ensembles():
    empty, half, sure = pooled_bins(comparison().methods[0], "clean")
    assert empty.count == 0
    assert (half.count, half.confidence / half.count) == (40, 0.5)
    assert sure.accuracy / sure.count == pytest.approx(0.8)


def test_every_score_of_unfamiliar_data_has_a_column():
    sets = {name: {"pds": {"auroc": 0.71}, "entropy": {"auroc": 0.5}} for name in "ab"}
    made = Comparison((method("A", evaluation(ood=sets, mistakes={})),))
    assert words(auroc_table(made)).count(" A 71.00 50.00 ") == 2


def epoch(number, seconds, memory):
    return EpochRecord(number, (1.0,), (0.1,), (), seconds, 9.0, 0.0, memory)


def test_the_price_is_what_was_measured():
    own = method("A", evaluation(), cost=COST)
    found = words("".join(price_table(Comparison((own,)))))
    assert " A 4 0.0 4.00 2.50 3.0 10.00 " in found
    spent = {"scoring": 6.0, "stepping": 11.0, "saving": 0.001}
    end = Outcome((epoch(0, 1.0, 5), epoch(1, 2.0, 3 * 2**29)), timeline=spent)
    own = method("A", evaluation(), cost=COST, outcome=end)
    made = Comparison((replace(own, training={**own.training, "passes": 72}),))
    assert " A 4 72 17.0 1.50 4.00 2.50 " in words("".join(price_table(made)))
    page = words(page_of(made))
    assert "method scoring stepping saving all A 6.000 11.000 0.001 17.001" in page


SCORES = {"accuracy": 0.91, "nll": 0.25, "ece": 0.01, "brier": 0.1}
SETS = {"promised": 0.9, "coverage": 0.88, "size": 1.5}


def applied(clean, hard, **natural):
    document = {"clean": clean, "severities": {"1": clean, "5": hard}}
    own = evaluation(applied={**document, "natural": natural})
    return Comparison((method("A", own, own),))


def test_calibrated_scores_and_coverage_over_severities():
    clean, hard = SCORES | SETS, SCORES | SETS | {"coverage": 0.42, "size": 2.5}
    made = applied(clean, hard, sketch={**clean, "coverage": 0.61})
    seen = words("".join(applied_parts(made)))
    assert "A as trained 90.00 0.400" in seen
    assert "A calibrated 91.00 0.250" in seen
    assert "promised % clean severity 1 severity 5 sketch" in seen
    assert "coverage % 90.00 88.00 88.00 42.00 61.00" in seen
    assert "size 1.500 1.500 2.500" in seen  # of which nothing was promised
    page = words(page_of(made))
    assert "sets hold %, clean data (promised 90)" in page
    assert " A 88.0 65.0 " in page
    assert "sets of answers" not in page  # among what was not measured
    bare = applied(dict.fromkeys(SCORES) | SETS, dict.fromkeys(SCORES) | SETS)
    seen = words("".join(applied_parts(bare)))
    assert "Before and after" not in seen
    assert "Coverage and size of conformal sets" in seen


RATES = {
    "names": ["ham", "<spam>", "yeti"],
    "samples": [80, 20, 0],
    "recall": [0.95, 0.5, None],
    "precision": [0.9, 0.75, None],
    "f1": [0.924, 0.6, None],
}


def by_class(*several, **more):
    """Return what the page says of classes; an evaluation for each of one method."""
    own = [evaluation(by_class=RATES | each, **more) for each in several]
    made = Comparison((method("A", *own),))
    return words("".join(class_parts(made)))


def test_every_class_has_its_scores():
    found = by_class({})
    assert "class samples recall % precision % F1 % ham 80 95.0 90.0 92.4" in found
    assert f"yeti 0 {DASH} {DASH} {DASH} " in found  # never 0
    sets = {"coverage": [0.97, 0.7, None], "size": [1.25, 1.5, None]}
    document = {"clean": {}, "severities": {}, "by_class": sets}
    found = by_class({}, applied=document)
    assert "F1 % coverage % set size ham 80 95.0 90.0 92.4 97.0 1.25" in found
    found = by_class({}, {"recall": [0.95, 0.6, None]})
    assert "<spam> 20 55.0 0 to 100 75.0 " in found
    found = by_class({}, {"precision": [0.9, None, None]})
    assert re.search(f"<spam> 20 50.0 {DASH} ", found)  # a mean is of all or none
    assert "label samples recall %" in by_class({}, task="Labels()")


def test_methods_stand_side_by_side_and_who_has_no_classes_is_left_out():
    better = RATES | {"recall": [0.9, 0.95, None]}
    several = (
        method("A", evaluation(by_class=RATES)),
        method("B", evaluation(by_class=better)),
        method("C", evaluation()),
        method("D", evaluation(by_class=RATES | {"samples": [0] * 3})),
    )
    found = words("".join(class_parts(Comparison(several))))
    assert "A ham 80 95.0 90.0 92.4 <spam> 20 50.0" in found
    assert "B ham 80 90.0 90.0" in found
    assert "C" not in re.findall(r"\b[A-D]\b", found)
    assert "D" not in re.findall(r"\b[A-D]\b", found)


def test_of_many_classes_those_of_lowest_recall_are_shown():
    names = [f"c{n:02}" for n in range(20)]
    rates = {"names": names, "samples": [9] * 20}
    rates |= dict.fromkeys(("precision", "f1"), [1.0] * 20)
    found = by_class(rates | {"recall": [(50 + n) / 100 for n in range(20)][::-1]})
    assert "12 of 20 classes, of lowest recall." in found
    assert re.findall(r"\bc\d\d(?= 9 )", found) == names[:7:-1]
    found = by_class(rates | {"recall": [0.5, 0.25, *[None] * 18]})
    assert re.findall(r"\bc\d\d(?= 9 )", found) == ["c01", "c00"]


def learner(label, accuracy, losses=(0.2, 0.3, 0.2)):
    own = evaluation(accuracy, {}, classes=4, majority=0.25)
    own["clean"] = {**own["clean"], "member_nlls": list(losses)}
    return method(label, own)


@pytest.mark.parametrize(
    ("own", "said"),
    [
        (learner("A", 0.25), f"A is no better than {GUESS} on clean data."),
        (learner("A", 0.6), ""),
        (
            learner("A", 0.6, losses=(0.2, 1.38, 0.3)),
            "Member 1 of A's ensemble 1 may not have learned.",
        ),
    ],
)
def test_what_came_to_nothing_is_said_first(own, said):
    made = Comparison((own,))
    assert " ".join(failures(made)) == said
    assert claim(made).startswith(said)


def test_paths_are_shown_short(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = "--data 'ImageFolder(path=/srv/private/photos)'"
    command = f"tepui compare --out {tmp_path}/runs/x {data}"
    source = ReportSource(Path("run"), "t", {}, {"command": command})
    made = replace(shown(comparison()), sources=(source,))
    short = write_report(made, tmp_path).read_text()
    assert "--out runs/x --data 'ImageFolder(path=.../photos)'" in unescape(short)
    assert str(tmp_path) not in short
    assert "private" not in short


def test_a_study_shows_the_papers_number_beside_ours():
    names = {"item": "x/figure1", "dataset": "<digits>", "architecture": "mlp"}
    names |= {"method": "sam", "metric": "accuracy", "unit": "percent"}
    row = Record(**names, value=97.0, n=3, at={"severity": 5})
    settings = {"differs": ["digits & small nets (two cores)"]}
    settings["trained on"] = "Digits"
    results = Results("x/figure1", "accuracy", "smoke", settings, {}, (row,))
    study = Study(Path("results"), results, "<svg><rect id='a'/></svg>")
    source = ReportSource(Path("results"), "t", {}, {})

    def page_with(study, numbers=lambda record: ("96.5", "97.0")):
        found = LoadedReports("t", None, (study,), (source,))
        return page_text(found, numbers)

    page = page_with(study)
    headings = ["dataset", "method", "severity", "metric", "paper", "ours", "n"]
    cells = re.findall(">([^<>]*)</t[dh]>", page)
    row_cells = ["&lt;digits&gt;", "sam", "5", "accuracy", "96.5", "97.0", "3"]
    assert cells == [*headings, *row_cells]
    assert "Not the paper&#39;s data: Digits for &lt;digits&gt;." in page
    assert "digits &amp; small nets (two cores)" in page
    assert ">paper<" not in page_with(study, lambda record: ("", "97.0"))
    said = "x/figure1: accuracy. The numbers stand in the table below."
    drawn = b64encode(b"<svg><rect id='a'/></svg>").decode()
    assert f'<img src="data:image/svg+xml;base64,{drawn}" alt="{said}">' in page


def test_undefined_scores_are_a_dash():
    own = evaluation(0.9, {})
    own["clean"] |= {"ece": None, "nll": math.nan}
    found = in_terminal(Comparison((method("A", own),)))
    assert re.search(rf"A\s+85.00\s+90.00\s+0.500\s+{DASH}\s+{DASH}\s*\n", found)
