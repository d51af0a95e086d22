"""Each class on the page."""

import re
from dataclasses import replace
from html import unescape

import pytest

from report_cases import comparison, shown, text
from tepui.report.by_class import class_parts

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
    assert "class samples recall % precision % F1 % ham 80 95.0 90.0 92.4" in found
    assert "yeti 0 – – – " in found  # noqa: RUF001 - a dash, never 0
    assert "coverage" not in found.lower()


def test_names_are_escaped_and_the_section_stands_below_all_scores():
    page = text(shown(with_rates({"by_class": RATES})))
    assert "<spam>" not in page
    assert page.index(">All scores</h2>") < page.index(">By class</h2>")


def test_sets_add_their_coverage_and_size():
    applied = {"clean": {}, "severities": {}, "by_class": SETS}
    found = seen(with_rates({"by_class": RATES, "applied": applied}))
    assert "F1 % coverage % set size ham 80 95.0 90.0 92.4 97.0 1.25" in found


def test_ensembles_of_a_method_have_a_mean_and_its_interval():
    again = RATES | {"recall": [0.95, 0.6, None]}
    found = seen(with_rates({"by_class": RATES}, {"by_class": again}))
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
    assert "Each class in numbers" in found


def test_a_method_among_others_that_lack_them_keeps_its_name():
    given = comparison()
    first, second = given.methods
    own = {**second.ensembles[0].evaluation, "by_class": RATES}
    second = replace(second, ensembles=(replace(second.ensembles[0], evaluation=own),))
    found = seen(replace(given, methods=(first, second)))
    assert "<spam> 20 50.0" in found
    assert "Left out, without scores of these classes: A." in found


def test_of_many_classes_those_of_lowest_recall_are_shown():
    recalls = [(50 + n) / 100 for n in range(20)]
    columns = dict.fromkeys(("precision", "f1"), [1.0] * 20)
    names = [f"c{n:02}" for n in range(20)]
    rates = {"names": names, "samples": [9] * 20, **columns}
    found = seen(with_rates({"by_class": rates | {"recall": recalls[::-1]}}))
    assert "12 of 20 classes, of lowest recall." in found
    assert re.findall(r"\bc\d\d(?= 9 )", found) == names[:7:-1]
    few = [0.5, 0.25, *[None] * 18]  # of which two occur
    found = seen(with_rates({"by_class": rates | {"recall": few}}))
    assert re.findall(r"\bc\d\d(?= 9 )", found) == ["c01", "c00"]
    twelve = {name: values[:12] for name, values in rates.items()}
    found = seen(with_rates({"by_class": twelve | {"recall": recalls[:12]}}))
    assert "of lowest recall" not in found
    assert re.findall(r"\bc\d\d(?= 9 )", found) == names[:12]


@pytest.mark.parametrize(
    ("task", "clean", "said"),
    [
        ("Labels()", {}, "label samples recall % precision % F1 % ham 80 10.0 "),
        ("Classes()", {"mean_iou": 0.5}, "class pixels recall % precision % F1 % ham"),
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
    assert "Left out, without scores of these classes: B." in seen(older)
    assert "Left out" not in seen(given)
    other = {"by_class": RATES | {"names": ["0", "1", "2"]}}
    found = seen(beside(older, "C", other))
    assert "these classes: B, C." in found
    never = RATES | {"samples": [0] * 3, "recall": [None] * 3}
    found = seen(beside(given, "D", {"by_class": never}))
    assert "these classes: D." in found
    assert seen(with_rates({"by_class": RATES}, {})) == ""


def test_a_mean_is_of_all_ensembles_or_a_dash():
    never = RATES | {"precision": [0.9, None, None]}
    found = seen(with_rates({"by_class": RATES}, {"by_class": never}))
    assert re.search("<spam> 20 50.0 [^a-z]*to [0-9.]+ – ", found)  # noqa: RUF001


def test_a_section_of_labels_is_called_that():
    labels = {"by_class": RATES, "task": "Labels()", "classes": 3}
    page = text(shown(with_rates(labels)))
    assert ">By label</h2>" in page
    assert "By class" not in page
    assert "by class" not in page
