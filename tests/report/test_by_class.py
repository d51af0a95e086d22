"""Each class on the page."""

import re
from dataclasses import replace
from html import unescape

import pytest
import torch
from torch import nn

import tepui
from report_cases import comparison, shown, text
from tepui import Ensemble
from tepui.data import Arrays
from tepui.evaluation import ByClass
from tepui.report.by_class import Method, by_class_parts, class_parts
from tepui.report.notebooks import html

RATES = {
    "names": ["ham", "<spam>", "yeti"],
    "samples": [80, 20, 0],
    "recall": [0.95, 0.5, None],
    "precision": [0.9, 0.75, None],
    "f1": [0.924, 0.6, None],
}
SETS = {"coverage": [0.97, 0.7, None], "size": [1.25, 1.5, None]}


def words(html):
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", html)))


def with_rates(*several):
    """Return the first method of a comparison with an ensemble for each document."""
    given = comparison()
    first = given.methods[0]
    ensembles = tuple(
        replace(trained, evaluation={**trained.evaluation, **rates})
        for trained, rates in zip(first.ensembles, several, strict=False)
    )
    return replace(given, methods=(replace(first, ensembles=ensembles),))


def seen(given):
    (group,) = shown(given).groups
    return words("".join(class_parts(group)))


def test_a_run_shows_every_class_and_the_one_found_least_often():
    found = seen(with_rates({"by_class": RATES}))
    assert "Class <spam> is found least often: 50.0 % of its 20 samples." in found
    assert "Balanced accuracy, in which every class counts the same, is 72.5 %" in found
    assert "class samples recall % precision % F1 % ham 80 95.0 90.0 92.4" in found
    assert "yeti 0 – – – " in found  # noqa: RUF001 - a dash, never 0
    assert "coverage" not in found.lower()
    assert "Precision: of what is predicted to be the class, how much is." in found


def test_names_are_escaped_and_the_section_stands_below_all_scores():
    page = text(shown(with_rates({"by_class": RATES})))
    assert "<spam>" not in page
    assert page.index(">All scores</h2>") < page.index(">By class</h2>")


def test_sets_add_their_coverage_and_size():
    applied = {"clean": {}, "severities": {}, "by_class": SETS}
    found = seen(with_rates({"by_class": RATES, "applied": applied}))
    assert "F1 % coverage % set size ham 80 95.0 90.0 92.4 97.0 1.25" in found
    assert "the promise is for all classes together" in found
    assert "very samples" not in found
    applied = applied | {"fitted_on_test": True}
    found = seen(with_rates({"by_class": RATES, "applied": applied}))
    assert "Sets were fitted on these very samples." in found


def test_ensembles_of_a_method_have_a_mean_and_its_interval():
    again = RATES | {"recall": [0.95, 0.6, None]}
    found = seen(with_rates({"by_class": RATES}, {"by_class": again}))
    assert "By class, mean and 95 % interval" in found
    assert "<spam> 20 55.0 0 to 100 75.0 " in found
    # Equal recalls are known to one sample of 80, not better.
    assert "ham 80 95.0 91.8 to 98.2 90.0 92.4" in found


def test_methods_stand_side_by_side():
    given = with_rates({"by_class": RATES})
    (first,) = given.methods
    better = RATES | {"recall": [0.9, 0.95, None]}
    own = {**first.ensembles[0].evaluation, "by_class": better}
    second = replace(first.ensembles[0], evaluation=own)
    methods = (first, replace(first, label="B", ensembles=(second,)))
    found = seen(replace(given, methods=methods))
    assert "method balanced accuracy % lowest recall % of class" in found
    assert "A 72.50 50.0 <spam> B 92.50 90.0 ham" in found
    assert "Every class in numbers" in found


def test_a_method_among_others_that_lack_them_keeps_its_name():
    given = comparison()
    first, second = given.methods
    own = {**second.ensembles[0].evaluation, "by_class": RATES}
    second = replace(second, ensembles=(replace(second.ensembles[0], evaluation=own),))
    found = seen(replace(given, methods=(first, second)))
    assert "lowest recall % of class B 72.50 50.0 <spam> Scroll" in found


def test_of_many_classes_those_of_lowest_recall_are_shown():
    recalls = [(50 + n) / 100 for n in range(20)]
    columns = dict.fromkeys(("precision", "f1"), [1.0] * 20)
    names = [f"c{n:02}" for n in range(20)]
    rates = {"names": names, "samples": [9] * 20, **columns}
    found = seen(with_rates({"by_class": rates | {"recall": recalls[::-1]}}))
    assert (
        "There are 20 classes: shown are the 12 of lowest recall, the lowest first; "
        "all are in its evaluations." in found
    )
    assert re.findall(r"\bc\d\d(?= 9 )", found) == names[:7:-1]
    few = [0.5, 0.25, *[None] * 18]  # of which two occur
    found = seen(with_rates({"by_class": rates | {"recall": few}}))
    assert "There are 20 classes, of which 2 occur; the table leaves out" in found
    assert re.findall(r"\bc\d\d(?= 9 )", found) == ["c00", "c01"]
    assert "lowest recall" not in found
    many = [*recalls[:15], *[None] * 5]
    found = seen(with_rates({"by_class": rates | {"recall": many}}))
    assert "20 classes, of which 15 occur: shown are the 12 of lowest recall" in found
    twelve = {name: values[:12] for name, values in rates.items()}
    found = seen(with_rates({"by_class": twelve | {"recall": recalls[:12]}}))
    assert "There are" not in found
    assert re.findall(r"\bc\d\d(?= 9 )", found) == names[:12]


@pytest.mark.parametrize(
    ("task", "clean", "said"),
    [
        ("Labels()", {}, "Label ham is found least often: 10.0 % of its 80 samples"),
        ("Classes()", {"mean_iou": 0.5}, "Class ham is found least often: 10.0 %"),
    ],
)
def test_labels_and_pixels_are_called_that(task, clean, said):
    given = with_rates({"by_class": RATES | {"recall": [0.1, 0.5, None]}})
    (first,) = given.methods
    own = dict(first.ensembles[0].evaluation, task=task)
    own["clean"] = own["clean"] | clean
    ensembles = (replace(first.ensembles[0], evaluation=own),)
    found = seen(replace(given, methods=(replace(first, ensembles=ensembles),)))
    assert said in found
    assert ("Mean recall, in which every label" in found) == (task == "Labels()")
    assert ("class pixels recall %" in found) == bool(clean)


def test_one_sample_and_all_found():
    one = RATES | {"samples": [80, 1, 0], "recall": [0.95, 0.0, None]}
    assert "0.0 % of its one sample." in seen(with_rates({"by_class": one}))
    every = RATES | {"recall": [1.0, 1.0, None]}
    found = seen(with_rates({"by_class": every}))
    assert "All samples of every class are found." in found


def test_evaluations_from_before_leave_it_out_without_a_word():
    page = text(shown(comparison()))
    assert "By class" not in page
    assert "by class" not in page
    assert "by label" not in page


def beside(given, label, *several):
    """Return a comparison with a method more, of an ensemble for each document."""
    first = given.methods[0]
    ensembles = tuple(
        replace(first.ensembles[0], evaluation={**base(first), **own})
        for own in several
    )
    more = replace(first, label=label, ensembles=ensembles)
    return replace(given, methods=(*given.methods, more))


def base(method):
    known = method.ensembles[0].evaluation
    return {name: part for name, part in known.items() if name != "by_class"}


def test_who_is_left_out_is_named():
    given = with_rates({"by_class": RATES})
    older = beside(given, "B", {"by_class": RATES}, {})
    assert "Left out: B (evaluated by an older version)." in seen(older)
    assert "Left out" not in seen(given)
    other = {"by_class": RATES | {"names": ["0", "1", "2"]}}
    found = seen(beside(older, "C", other))
    assert (
        "Left out: B (evaluated by an older version) and C (other names of classes)."
        in found
    )
    never = RATES | {"samples": [0] * 3, "recall": [None] * 3}
    found = seen(beside(given, "D", {"by_class": never}))
    assert "Left out: D (no samples of any class)." in found
    mixed = with_rates({"by_class": RATES}, {})
    assert seen(mixed).split("Left out: ")[1].endswith("by an older version). ")


def test_a_mean_is_of_all_ensembles_or_a_dash():
    never = RATES | {"precision": [0.9, None, None]}
    found = seen(with_rates({"by_class": RATES}, {"by_class": never}))
    assert re.search("<spam> 20 50.0 [^a-z]*to [0-9.]+ – ", found)  # noqa: RUF001
    assert "A dash marks a share of nothing, in some ensemble at least." in found


def test_calibrated_rates_are_shown_and_said_to_be():
    rates = {name: RATES[name] for name in ("recall", "precision", "f1")}
    rates |= {"recall": [0.75, 0.85, None]}
    applied = {"clean": {}, "severities": {}, "by_class": rates}
    calibrated = {"by_class": RATES, "applied": applied}
    found = seen(with_rates(calibrated))
    assert "Class ham is found least often: 75.0 %" in found
    assert "The calibration is applied, as in predictions." in found
    assert "very samples" not in found
    applied["fitted_on_test"] = True
    found = seen(with_rates(calibrated))
    assert "Calibration was fitted on these very samples." in found
    applied["by_class"] = rates | SETS
    found = seen(with_rates(calibrated))
    assert "Calibration and sets were fitted on these very samples." in found
    found = seen(beside(with_rates({"by_class": RATES}), "B", calibrated))
    assert "The calibration of B is applied, as in predictions." in found
    assert "calibration" not in seen(with_rates({"by_class": RATES}))


def test_one_label_is_no_least():
    one = {name: values[1:2] for name, values in RATES.items()}
    given = with_rates({"by_class": one, "task": "Labels()"})
    for shown_methods in (given, beside(given, "B", {"by_class": one})):
        found = seen(shown_methods)
        assert "<spam> 20 50.0 75.0 60.0" in found
        for word in ("least", "lowest", "One accuracy", "every label"):
            assert word not in found


def test_ties_and_what_is_almost_all_found():
    ties = RATES | {"recall": [0.5, 0.5, None]}
    found = seen(with_rates({"by_class": ties}))
    assert "Class ham is among the least often found: 50.0 %" in found
    almost = RATES | {"recall": [0.9999, 1.0, None]}
    found = seen(with_rates({"by_class": almost}))
    assert "found least often: 99.99 % of" in found
    assert "counts the same, is 99.995 %" in found


def test_a_section_of_labels_is_called_that():
    labels = {"by_class": RATES, "task": "Labels()", "classes": 3}
    page = text(shown(with_rates(labels)))
    assert ">By label</h2>" in page
    assert "By class" not in page
    assert "by class" not in page


def test_a_notebook_names_no_file():
    inputs = torch.randn(40, 2, generator=torch.Generator().manual_seed(0))
    test = Arrays(inputs, torch.arange(40) % 20)
    ensemble = Ensemble.build(lambda: nn.Linear(2, 20), 2, seed=1)
    found = words(html(tepui.evaluate(ensemble, test)))
    assert "the lowest first; all are in Evaluation.by_class." in found
    assert "its evaluations" not in found


def test_recalls_are_averaged_once():
    ensembles = [ByClass.of({"by_class": RATES})]
    method = Method("A", ensembles)
    assert method.recalls is method.recalls


def section(given):
    (group,) = shown(given).groups
    return words("".join(by_class_parts(group)))


def test_missed_samples_are_shown_by_what_they_were_called():
    first = {
        "by_class": RATES,
        "confusions": [["ham", "<spam>", 4], ["<spam>", "ham", 1]],
    }
    second = {"by_class": RATES, "confusions": [["<spam>", "ham", 9]]}
    found = section(with_rates(first, second))
    assert "2 ensembles together class called ham called <spam>" in found
    assert " ham – 4 0 <spam> 10 – 0 yeti 0 0 – " in found  # noqa: RUF001 - dashes
    assert "were called" not in section(with_rates({"by_class": RATES}))


def test_of_many_classes_the_most_frequent_confusions_are_shown():
    names = [f"c{number}" for number in range(14)]
    rates = dict.fromkeys(("recall", "precision", "f1"), [0.5] * 14)
    pairs = [[name, "c0", 20 - place] for place, name in enumerate(names[1:])]
    many = {"names": names, "samples": [9] * 14, **rates}
    found = section(with_rates({"by_class": many, "confusions": pairs}))
    assert "the 12 most frequent class called samples c1 c0 20 c2 c0 19" in found
    assert "c12 c0 9" in found
    assert "c13 c0 8" not in found
