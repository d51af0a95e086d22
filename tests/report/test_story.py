"""The sentences with which a page begins, from made-up numbers."""

from dataclasses import replace

import pytest

from report_cases import evaluation, shown
from tepui.report.chance import count_apart
from tepui.report.measures import ACCURACY, kinds, measures_of
from tepui.report.story import contrasts_of, told
from tepui.studies import Comparison, Difference, MethodResult, Trained

SAMPLES = 10_000


def ensemble(seed, accuracy, corrupted, nll=0.4):
    own = evaluation({("fog", 1): corrupted, ("fog", 5): corrupted})
    scores = {**own["clean"], "nll": nll}
    own = own | {"samples": SAMPLES, "clean": {**scores, "accuracy": accuracy}}
    own["shifted"] = {**own["shifted"], "accuracy": corrupted}
    return Trained("nowhere", (seed,), 60.0, own, {}, None)


def comparison(**methods):
    """Return methods by pairs of clean and corrupted accuracy, one per ensemble."""
    made = tuple(
        MethodResult(
            label, {}, tuple(ensemble(n, *scores) for n, scores in enumerate(rows))
        )
        for label, rows in methods.items()
    )
    return Comparison("made up", {"epochs": 4}, {}, made)


def said(**methods):
    return told(shown(comparison(**methods)).groups[0])


def about_hints(comparisons):
    return (
        " A hint rests on three pairs of ensembles or fewer, or does not stay apart "
        f"after Holm's correction for all {comparisons} comparisons."
    )


PLAIN = [(0.90, 0.60), (0.91, 0.62), (0.92, 0.61)]
BETTER = [(a + 0.02 + n / 1000, c + n / 50) for n, (a, c) in enumerate(PLAIN)]


def test_what_an_interval_separates_is_claimed():
    found = said(Plain=PLAIN, Better=BETTER)
    assert found.claim == (
        "Better is 2.1 points more accurate than Plain on clean data (a hint). For "
        "Better on corrupted data, ensemble accuracy is not clearly different from "
        "Plain's (95 % intervals over shared seeds)." + about_hints(12)
    )
    assert "on corrupted data Better lies 2.0 points above Plain" in found.story
    minus = "−"  # noqa: RUF001 - a minus sign
    assert f"(95 % interval {minus}3.0 to +7.0)" in found.story


def test_worse_is_said_as_plainly():
    found = said(Better=BETTER, Plain=PLAIN)
    assert found.claim.startswith("Plain is 2.1 points less accurate than Better")


def test_nothing_apart_is_the_claim():
    noisy = [(0.91, 0.60), (0.90, 0.63), (0.93, 0.60)]
    found = said(Plain=PLAIN, Noisy=noisy)
    assert found.claim == (
        "With three ensembles per method, nothing here is distinguishable."
    )
    assert "Elsewhere" not in found.story
    assert found.next.startswith("Train six ensembles per method, about 12 minutes")
    assert "±1 point would take about 7 ensembles" in found.next


def test_no_fewer_ensembles_are_wished_for_than_advised():
    close = [(a + n / 5000, c + n / 5000) for n, (a, c) in enumerate(PLAIN, -1)]
    found = said(Plain=PLAIN, Close=close)
    assert found.next.startswith("Train six ensembles per method")
    assert "±1 point" not in found.next


def test_other_measures_are_hints_beside_what_chance_brings():
    noisy = [(0.91, 0.60, 0.30), (0.90, 0.63, 0.32), (0.93, 0.60, 0.30)]
    found = said(Plain=PLAIN, Noisy=noisy)
    assert found.claim == (
        "With three ensembles per method, ensemble accuracy cannot be told apart, on "
        "clean data or on corrupted data."
    )
    assert "Noisy's log loss (NLL) is lower on clean data (0.307 against 0.400" in (
        found.story
    )
    assert "about 1 of 12 comparisons apart, and one is, but not after" in found.story


def on_clean_data(made):
    """Return methods without what they did on corrupted data: six differences each."""
    methods = tuple(
        replace(
            method,
            ensembles=tuple(
                replace(
                    each, evaluation={**each.evaluation, "shifted": None, "cells": []}
                )
                for each in method.ensembles
            ),
        )
        for method in made.methods
    )
    return replace(made, methods=methods)


def test_headline_and_story_do_not_contradict_each_other():
    noisy = with_losses([(0.91, 0.6), (0.90, 0.6), (0.93, 0.6)], 0.45, 0.47, 0.455)
    made = on_clean_data(comparison(Plain=PLAIN, Noisy=noisy))
    every = contrasts_of(made, measures_of(made), kinds(made))
    (apart,) = (each for each in every if each.found.apart)
    assert len(every) == 6
    assert 3 * apart.found.p < 0.05 < 6 * apart.found.p  # not of all that are shown
    page = told(shown(made).groups[0])
    assert page.claim.endswith("accuracy cannot be told apart, on clean data.")
    assert (
        "chance alone would set less than one of 6 comparisons apart, and one is, but "
        "not after Holm's correction for all 6: take it as a hint."
    ) in page.story
    assert count_apart([each.found for each in every]).endswith("less than one.")


@pytest.mark.parametrize("others", [1, 4])
def test_a_headline_that_no_correction_leaves_is_a_hint(others):
    near = [(0.910, 0.60), (0.922, 0.63), (0.934, 0.60)]
    methods = {f"Near{n}": [(a, c + n / 1000) for a, c in near] for n in range(others)}
    found = said(Plain=PLAIN, **methods)
    assert "1.2 points more accurate than Plain on clean data (a hint)." in found.claim
    assert found.claim.endswith(about_hints(12 * others))


def contrasts(**methods):
    made = comparison(**methods)
    return contrasts_of(made, measures_of(made), kinds(made))


def test_three_ensembles_give_a_hint_and_five_that_survive_a_finding():
    offsets = (0.020, 0.021, 0.020, 0.021, 0.020)
    plain = [(0.90 + n / 100, 0.60) for n in range(5)]
    better = [(a + d, c) for (a, c), d in zip(plain, offsets, strict=True)]
    for number, hint in ((3, " (a hint)"), (5, "")):
        found = said(Plain=plain[:number], Better=better[:number])
        first = f"Better is 2.0 points more accurate than Plain on clean data{hint}. "
        assert found.claim.startswith(first)
        assert found.claim.endswith(about_hints(12)) == bool(hint)
    worse = with_losses(better, 0.45, 0.46, 0.45, 0.46, 0.45)
    claim = said(Plain=plain, Better=worse).claim
    assert ", but Better is clearly worse in log loss (NLL) on clean data (" in claim


def test_a_difference_is_a_hint_though_another_measure_survives():
    near = [(0.910, 0.60), (0.922, 0.63), (0.934, 0.60), (0.925, 0.60), (0.902, 0.60)]
    plain = [*PLAIN, (0.915, 0.61), (0.905, 0.60)]
    losses = (0.45, 0.46, 0.45, 0.46, 0.45)
    made = contrasts(Plain=plain, Near=with_losses(near, *losses))
    accuracy = next(c for c in made if (c.measure, c.data) == (ACCURACY, "clean"))
    assert 0.05 / 12 < accuracy.found.p < 0.05
    found = said(Plain=plain, Near=with_losses(near, *losses))
    assert "more accurate than Plain on clean data (a hint)" in found.claim
    assert "clearly worse in log loss (NLL) on clean data" in found.claim


def test_what_survives_a_correction_at_three_ensembles_is_a_hint_all_the_same():
    noisy = [(0.91, 0.60), (0.90, 0.63), (0.93, 0.60)]
    found = said(Plain=PLAIN, Noisy=with_losses(noisy, 0.45, 0.46, 0.45))
    assert "Noisy is worse in log loss" in found.claim
    all_of_it = "about 1 of 12 comparisons apart, and one is, also after Holm's "
    assert f"{all_of_it}correction for all 12: take it as a hint." in found.story
    many = with_losses(BETTER, 0.45, 0.47, 0.46)
    found = said(Plain=PLAIN, Better=many)
    assert (
        "apart, and two are, one of them also after Holm's correction for all 12: take "
        "these as hints."
    ) in found.story


def with_losses(rows, *losses):
    return [(*row, loss) for row, loss in zip(rows, losses, strict=True)]


def test_a_claim_names_what_got_clearly_worse():
    better = with_losses(BETTER, 0.45, 0.46, 0.45)
    claim = said(Plain=PLAIN, Better=better).claim
    assert claim.startswith(
        "Better is 2.1 points more accurate than Plain on clean data (a hint), but "
        "Better is worse in log loss (NLL) on clean data (0.453 against 0.400; a hint)"
    )
    unclear = with_losses(BETTER, 0.45, 0.36, 0.45)
    assert "worse" not in said(Plain=PLAIN, Better=unclear).claim
    chance = with_losses(BETTER, 0.45, 0.47, 0.46)  # apart, but not of so many
    found = said(Plain=PLAIN, Better=chance)
    assert "worse" not in found.claim
    assert "Better's log loss (NLL) is higher on clean data" in found.story
    not_seen = with_losses(BETTER, 0.4003, 0.4002, 0.4003)
    assert "worse" not in said(Plain=PLAIN, Better=not_seen).claim
    gained = with_losses(BETTER, 0.35, 0.36, 0.35)
    assert "but" not in said(Plain=PLAIN, Better=gained).claim


def test_a_claim_of_less_accuracy_names_what_got_better():
    better = with_losses(BETTER, 0.45, 0.46, 0.45)
    claim = said(Better=better, Plain=PLAIN).claim
    assert "but Plain is better in log loss (NLL) on clean data" in claim


def test_of_several_methods_each_has_its_own_reserve():
    worse = with_losses(BETTER, 0.450, 0.456, 0.452)
    claim = said(Plain=PLAIN, Good=BETTER, Bad=worse).claim
    assert claim.startswith(
        "Good is 2.1 points more accurate than Plain on clean data (a hint); Bad is "
        "2.1 points more accurate than Plain on clean data (a hint), but Bad is worse"
    )
    assert "For Good on corrupted data and Bad on corrupted data, ensemble" in claim
    four = {f"m{n}": BETTER for n in range(4)}
    assert "but" not in said(Plain=PLAIN, **four, Bad=worse).claim  # of so many
    worse = with_losses(BETTER, 0.453, 0.454, 0.453)
    many = said(Plain=PLAIN, **four, Bad=worse).claim
    assert (
        "m0, which is 2.1 points more accurate than Plain on clean data (a hint), but "
        "Bad is worse in log loss (NLL) on clean data (0.453 against 0.400; a hint)."
    ) in many


def test_a_gain_of_one_method_does_not_hide_what_another_lost():
    noisy = [(0.91, 0.60), (0.90, 0.63), (0.93, 0.60)]
    worse = with_losses(noisy, 0.453, 0.454, 0.453)
    loses = "Noisy is worse in log loss (NLL) on clean data (0.453 against 0.4"
    claim = said(Plain=PLAIN, Good=BETTER, Noisy=worse).claim
    assert claim.startswith("Good is 2.1 points more accurate than Plain on clean data")
    assert f"over shared seeds). {loses}00; a hint)." in claim
    assert "worse" not in said(Plain=PLAIN, Good=BETTER, Noisy=noisy).claim
    four = {f"m{n}": BETTER for n in range(4)}
    assert f", but {loses}00; a hint)." in said(Plain=PLAIN, **four, Noisy=worse).claim


def test_equal_accuracy_does_not_hide_what_got_worse():
    noisy = with_losses([(0.91, 0.60), (0.90, 0.63), (0.93, 0.60)], 0.45, 0.46, 0.45)
    assert said(Plain=PLAIN, Noisy=noisy).claim == (
        "With three ensembles per method, ensemble accuracy cannot be told apart, on "
        "clean data or on corrupted data, but Noisy is worse in log loss (NLL) on "
        "clean data (0.453 against 0.400; a hint)." + about_hints(12)
    )


def test_one_ensemble_claims_nothing():
    found = said(Plain=PLAIN[:1], Better=BETTER[:1])
    assert found.claim == (
        "One ensemble per method was trained: differences may be chance."
    )
    assert "Train five ensembles per method" in found.next


def test_a_method_alone_is_told_by_its_scores():
    found = said(Plain=PLAIN)
    assert found.claim == (
        "Plain's ensemble accuracy is 91.00 % on clean data and 61.00 % on corrupted "
        "data."
    )
    assert found.next == ""


def test_many_methods_make_no_endless_sentence():
    rows = {f"m{n}": BETTER for n in range(9)}
    found = said(Plain=PLAIN, **rows)
    assert found.claim == (
        "Nine of nine methods seem to differ from Plain in ensemble accuracy, most of "
        "all m0, which is 2.1 points more accurate than Plain on clean data (a hint)."
        + about_hints(108)
    )
    assert "and six more" in found.story
    assert "An epoch takes 1.0 times as long with the other methods" in found.story


def test_page_table_and_claim_share_one_interval():
    made = comparison(Plain=PLAIN, Better=BETTER)
    (clean, _) = contrasts_of(made, [ACCURACY], kinds(made))
    page = told(shown(made).groups[0])
    assert clean.found.apart
    assert clean.size in page.claim
    base, better = made.methods
    assert clean.found == ACCURACY.less(better, base, "clean")
    every = contrasts_of(made, measures_of(made), kinds(made))
    assert len(every) == len(measures_of(made)) * 2


def test_counts_stand_beside_what_chance_brings():
    apart, open_ = Difference(1, 0.5, 1.5, 0.01, 3), Difference(1, -1, 3, 0.3, 3)
    assert count_apart([apart, *[open_] * 19]) == (
        "Of 20 intervals one leaves out zero; chance alone would bring about 1."
    )
    assert "none leave out zero" in count_apart([open_])
    assert count_apart([open_] * 9).endswith("would bring less than one.")
    assert count_apart([open_] * 10).endswith("would bring about 1.")
    assert count_apart([open_] * 40).endswith("would bring about 2.")


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_undefined_scores_are_left_out(missing):
    made = comparison(Plain=PLAIN, Better=BETTER)
    first, *rest = made.methods[1].ensembles
    clean = {**first.evaluation["clean"], "accuracy": missing}
    broken = replace(first, evaluation={**first.evaluation, "clean": clean})
    method = replace(made.methods[1], ensembles=(broken, *rest))
    found = replace(made, methods=(made.methods[0], method))
    pairs = contrasts_of(found, [ACCURACY], ["clean"])
    assert [each.found.count for each in pairs] == [2]


def test_a_comparison_is_printed_in_short():
    lines = str(comparison(Plain=PLAIN, Better=BETTER)).splitlines()
    assert lines[0] == "made up"
    rows = [line.split() for line in lines[1:-3]]
    assert rows[0] == ["clean", "individual", "accuracy", "accuracy", "nll", "ece"]
    assert rows[3][0] == "corrupted"
    assert [[*row[:1], row[2]] for row in rows if row[0] in ("Plain", "Better")] == [
        ["Plain", "0.91"],
        ["Better", "0.931"],
        ["Plain", "0.61"],
        ["Better", "0.63"],
    ]
    assert lines[-3].strip() == "means over ensembles (3 per method)"


def test_a_printed_comparison_says_what_is_clear_and_what_got_worse():
    better = with_losses(BETTER, 0.45, 0.46, 0.45)
    lines = str(comparison(Plain=PLAIN, Better=better)).splitlines()
    assert lines[-2].startswith("  apart from Plain (95 % intervals over")
    assert lines[-1].split(": ") == [
        "  Better on clean data",
        "accuracy +0.021 (better), nll +0.053 (worse)",
    ]
    noisy = [(0.91, 0.60), (0.90, 0.63), (0.93, 0.60)]
    last = str(comparison(Plain=PLAIN, Noisy=noisy)).splitlines()[-1]
    assert last.startswith("  nothing is apart from Plain (95 % intervals over")
    alone = str(comparison(Plain=PLAIN[:1], Better=BETTER[:1])).splitlines()[-1]
    assert alone.strip() == "means over ensembles (1 per method)"
