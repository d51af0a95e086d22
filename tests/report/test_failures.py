"""A page says first which ensembles guess and which members did not learn."""

import pytest

from report_cases import comparison, evaluation, shown, text
from tepui.report.comparison import Comparison, MethodResult, Trained
from tepui.report.contrast_rows import claim
from tepui.report.failures import failures


def method(label, accuracy, losses=(0.2, 0.3, 0.2), majority=0.25, shifts=None):
    own = evaluation({(name, 0): value for name, value in (shifts or {}).items()})
    own |= {"samples": 400, "classes": 4, "majority": majority}
    own["by_class_shifted"] = {name: {"samples": [60, 40]} for name in shifts or {}}
    own["clean"] = {**own["clean"], "accuracy": accuracy, "member_nlls": list(losses)}
    return MethodResult(label, {}, (Trained("nowhere", (1,), 8.0, own, {}, None),))


def said(*methods):
    return failures(Comparison("made up", {}, {}, methods))


GUESS = "be told from always naming the most frequent class, which is right for 25.0 %"


@pytest.mark.parametrize(
    ("accuracies", "beginning"),
    [
        ((0.26, 0.27), f"Nothing here can {GUESS}"),
        ((0.26, 0.6), f"A cannot {GUESS}"),
        ((0.26, 0.27, 0.6), f"A and B cannot {GUESS}"),
    ],
)
def test_methods_that_guess_are_named(accuracies, beginning):
    methods = map(method, "ABC", accuracies)
    assert said(*methods).startswith(beginning)


def test_methods_that_do_worse_than_a_guess_are_not_told_to_train_longer():
    found = said(method("A", 0.1), method("B", 0.26))
    worse = "A is worse than always naming the most frequent class, which is right for"
    assert found.startswith(f"{worse} 25.0 % of the clean data: these may have shifted")
    assert f"B cannot {GUESS}" in found
    both = said(method("A", 0.1), method("B", 0.12))
    assert both.startswith("A and B are worse than always")
    assert "train longer" not in both


@pytest.mark.parametrize(
    ("first", "second", "beginning"),
    [
        ({"B": 0.3}, {"B": 0.2}, "On B data every method is worse than always naming"),
        ({"B": 0.3, "C": 0.1}, {"B": 0.2, "C": 0.1}, "On B and C data every method is"),
        ({"B": 0.6}, {"B": 0.2}, "On B data second is worse than always naming the"),
        ({"B": 0.6, "C": 0.4}, {"B": 0.2, "C": 0.7}, "On B data second is worse than"),
        (dict.fromkeys("BCDE", 0.1),) * 2 + ("On four natural shifts every method is",),
    ],
)
def test_shifts_on_which_a_guess_does_better_are_named(first, second, beginning):
    methods = method("first", 0.9, shifts=first), method("second", 0.9, shifts=second)
    assert said(*methods).startswith(beginning)
    made = Comparison("two", {"epochs": 4}, {}, methods)
    assert claim(shown(made).groups[0]).startswith(beginning)


def test_shifts_that_differ_between_methods_have_a_sentence_each():
    shifts = {"A": 0.3, "B": 0.9}, {"A": 0.9, "B": 0.3}, {"A": 0.9, "B": 0.3}
    methods = [method(n, 0.9, shifts=s) for n, s in zip("KLM", shifts, strict=True)]
    than = "worse than always naming the most frequent class."
    assert said(*methods) == f"On A data K is {than} On B data L and M are {than}"
    assert said(method("K", 0.9, shifts={"A": 0.3})) == f"On A data K is {than}"


def test_shifts_are_not_named_where_accuracy_is_not_of_samples():
    assert said(method("K", 0.9, majority=None, shifts={"A": 0.3})) == ""
    one = method("K", 0.9, shifts={"A": 0.3})
    del one.ensembles[0].evaluation["by_class_shifted"]  # of earlier versions
    assert said(one) == ""


def test_nothing_is_said_where_all_learned_or_nothing_is_known():
    assert said(method("A", 0.6), method("B", 0.5)) == ""
    assert said(method("A", 0.1, majority=None)) == ""


def test_a_number_of_the_claim_stays_with_its_unit():
    first = comparison().methods[0]
    page = text(shown(Comparison("one", {"epochs": 4}, {}, (first,))))
    assert "accuracy is 90.00\u00a0% on clean data" in page


def test_a_dead_member_is_named_in_the_first_paragraph():
    made = Comparison("one", {"epochs": 4}, {}, (method("A", 0.6, (0.2, 1.38, 0.3)),))
    assert claim(shown(made).groups[0]).startswith(
        "Member 1 of A's ensemble 1 may not have learned: the loss on clean data lies "
        "far above that of the other members. A's ensemble accuracy"
    )
