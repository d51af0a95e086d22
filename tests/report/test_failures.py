"""A page says first which ensembles guess and which members did not learn."""

from report_cases import comparison, evaluation, shown, text
from tepui.report.comparison import Comparison, MethodResult, Trained
from tepui.report.contrast_rows import claim, failures


def method(label, accuracy, losses=(0.2, 0.3, 0.2), majority=0.25, shifts=None):
    own = evaluation({(name, 0): value for name, value in (shifts or {}).items()})
    own |= {"samples": 400, "classes": 4, "majority": majority}
    own["by_class_shifted"] = {name: {"samples": [60, 40]} for name in shifts or {}}
    own["clean"] = {**own["clean"], "accuracy": accuracy, "member_nlls": list(losses)}
    return MethodResult(label, {}, (Trained("nowhere", (1,), 8.0, own, {}, None),))


def said(*methods):
    return " ".join(failures(Comparison("made up", {}, {}, methods)))


GUESS = "always naming the most frequent class"


def test_methods_that_guess_or_do_worse_are_named():
    methods = map(method, "ABC", (0.26, 0.1, 0.6))
    assert said(*methods) == (
        f"A cannot be told from {GUESS} on clean data. B is worse than {GUESS} on "
        "clean data."
    )


def test_shifts_on_which_a_guess_does_better_are_named():
    methods = [method("A", 0.9, shifts={"ward": 0.3, "x": 0.9}), method("B", 0.9)]
    assert said(methods[0]) == f"A is worse than {GUESS} on ward data."
    made = Comparison("one", {"epochs": 4}, {}, methods[:1])
    assert claim(shown(made).groups[0]).startswith(f"A is worse than {GUESS} on ward")


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
        "Member 1 of A's ensemble 1 may not have learned. A's ensemble accuracy"
    )
