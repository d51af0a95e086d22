"""From findings to verdicts."""

import json
import math
import re
from dataclasses import replace
from decimal import Context, Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from claim_cases import CASES, repeated
from tepui.core.storage import unseal
from tepui.papers.claims import rethinking, sed
from tepui.papers.claims.base import Finding, decide
from tepui.papers.claims.comparisons import apart, combined, log_line
from tepui.papers.claims.evidence import (
    Datum,
    Evidence,
    printed_evidence,
    read_evidence,
)
from tepui.papers.claims.judging import CLAIMS, verdicts
from tepui.papers.claims.tables import (
    DIGITS,
    cells,
    document,
    markdown,
    overview,
    rounded,
)
from tepui.papers.writing import as_json
from tepui.studies import differences, paired_difference
from tepui.studies.results import Results, write_results

NUMBERS = st.floats(-3, 3)


def finding(effect, error=1.0, freedom=5, **region):
    names = {"where": "here", "n": int(freedom) + 1, **region}
    return Finding(effect=effect, error=error, freedom=freedom, **names)


def datum(values, method="a", metric="accuracy", **at):
    record = repeated("x/table1", method, metric, 0.0, **at)
    mean = sum(values) / len(values)
    changed = {"values": tuple(values), "n": len(values), "value": mean}
    return Datum(type(record)(**{**vars(record), **changed}), "small")


def by_name(name):
    return next(claim for claim in CLAIMS if claim.name == name)


PAIRS = st.lists(st.tuples(NUMBERS, NUMBERS), min_size=3, max_size=8)


@given(PAIRS)
def test_a_difference_is_paired_over_shared_seeds(pairs):
    first, second = map(list, zip(*pairs, strict=True))
    found = combined([datum(first), datum(second)], lambda v: v[0] - v[1], "here")
    if found.error is None or found.error < 1e-6:
        return
    expected = paired_difference(first, second)
    assert found.interval == pytest.approx((expected.low, expected.high))
    two_sided = 2 * min(found.p_for, found.p_against)
    assert two_sided == pytest.approx(expected.p, abs=1e-9)


@given(PAIRS, st.floats(0.1, 2))
def test_a_margin_is_tested_by_two_one_sided_tests(pairs, margin):
    first, second = map(list, zip(*pairs, strict=True))
    region = (-margin, margin)
    pair = [datum(first), datum(second)]
    found = combined(pair, lambda v: v[0] - v[1], "here", region)
    if found.error is None or found.error < 1e-6:
        return
    gaps = differences(first, second)
    above = stats.ttest_1samp(gaps, -margin, alternative="greater").pvalue
    below = stats.ttest_1samp(gaps, margin, alternative="less").pvalue
    expected = max(above, below)
    assert found.p_for == pytest.approx(expected, abs=1e-9)
    assert found.p_against <= 1 - found.p_for + 1e-9


@given(st.floats(-5, 5), st.floats(0.1, 2), st.integers(1, 9))
def test_ends_of_an_interval_are_where_p_is_five_percent(effect, error, freedom):
    low, high = finding(effect, error, freedom).interval
    at_low = finding(effect, error, freedom, region=(low, math.inf))
    at_high = finding(effect, error, freedom, region=(high, math.inf))
    assert at_low.p_for == pytest.approx(0.025)
    assert at_high.p_against == pytest.approx(0.025)


FINDINGS = st.lists(st.builds(finding, st.floats(-6, 6)), min_size=1, max_size=5)


@given(FINDINGS)
def test_scopes_differ_in_what_one_finding_can_do(findings):
    always, generally = (decide(findings, scope) for scope in ("always", "generally"))
    if generally.holds:
        assert generally.p == min(1, 2 * max(each.p_for for each in findings))
    else:
        assert generally.p == min(1, 2 * max(each.p_against for each in findings))
    if not always.holds:
        smallest = min(each.p_against for each in findings)
        assert always.p == pytest.approx(min(1, 2 * len(findings) * smallest))


@given(st.floats(-5, 5), st.integers(1, 30))
def test_what_was_picked_from_many_counts_as_often(effect, looks):
    alone, picked = finding(effect), finding(effect, looks=looks)
    assert picked.p_for == pytest.approx(min(1, looks * alone.p_for))
    assert picked.p_against == pytest.approx(min(1, looks * alone.p_against))


def test_an_unknown_error_speaks_neither_way():
    unknown = finding(9.0, None)
    assert (unknown.p_for, unknown.p_against, unknown.interval) == (1.0, 1.0, None)
    for scope in ("always", "generally"):
        assert decide([unknown], scope) is None
        for effect in (9.0, -9.0):
            clear = finding(effect, 0.1)
            assert decide([clear, unknown], scope) == decide([clear], scope)
            assert decide([clear], scope).holds == (effect > 0)


def test_repetitions_that_all_agree_say_nothing_about_their_spread():
    rounded = np.float32([[0.7, 0.8, 0.9], [0.6, 0.7, 0.8]]).tolist()
    assert len(set(differences(*rounded))) > 1
    found = combined([*map(datum, rounded)], lambda v: v[0] - v[1], "here")
    assert (found.error, found.effect) == (None, pytest.approx(0.1, rel=1e-5))


def test_slopes_that_share_nothing_are_compared_as_welch_does():
    first, second = [1.0, 2.0, 4.0, 3.5], [0.5, 0.0, 1.5]
    pair = [
        finding(np.mean(values), stats.sem(values), len(values) - 1)
        for values in (first, second)
    ]
    found = apart(*pair, "here")
    expected = stats.ttest_ind(first, second, equal_var=False, alternative="greater")
    assert found.p_for == pytest.approx(expected.pvalue)
    assert apart(pair[0], finding(1.0, None), "here").error is None


@given(
    st.lists(NUMBERS, min_size=6, max_size=6), st.lists(NUMBERS, min_size=6, max_size=6)
)
def test_a_line_in_logarithms_is_that_of_least_squares(x, y):
    x = [value + 0.01 * n for n, value in enumerate(x)]
    line = stats.linregress(x, y)
    if not line.stderr > 1e-6 or np.ptp(x) < 0.1:
        return
    sharp, diverse = (
        [datum(np.exp(values[n : n + 2]), rho=n / 10) for n in (0, 2, 4)]
        for values in (x, y)
    )
    found = log_line(sharp, diverse[::-1], "here")
    assert (found.effect, found.error) == pytest.approx((line.slope, line.stderr))
    assert (found.freedom, found.n) == (4, 6)


def test_a_baseline_that_is_sharpest_refutes_that_safety_is_sharp():
    name = "rethinking/safety-is-sharp"
    refuting = CASES["rethinking/baseline-flattest"](-1)
    data = Evidence(tuple(Datum(each, "small") for each in refuting))
    (found,) = verdicts(data, [by_name(name)])
    assert found.outcome == "does not transfer"
    assert "no control is sharper than the baseline" in found.why


@pytest.mark.parametrize(
    ("safer", "sharper", "weaker"),
    [
        ([5.0, 5.1, 4.9], [8.0, 8.1, 7.9], "against"),  # both are sure
        ([5.0, 5.1, 4.9], [1.0, 4.0, -1.0], "its sharpness"),
        ([-5.0, -5.1, -4.9], [1.0, 4.0, -1.0], "against"),  # the baseline wins
    ],
)
def test_a_safe_control_must_surely_be_sharper(safer, sharper, weaker):
    zero = [0.1, -0.1, 0.2]
    flat = {"baseline": datum(zero), "weight_decay": datum(sharper)}
    safety = {
        name: datum(values, name)
        for name, values in (("baseline", zero), ("weight_decay", safer))
    }
    found = rethinking._sharper_against_rest(flat, safety, 1, "here")
    assert weaker in found.where
    assert (found.p_for < 0.05) == (weaker == "against" and safer[0] > 0)
    assert (found.p_against < 0.05) == (safer[0] < 0)


PRINTED = {
    "sharpbalance/gap-severity": ("refuted", "table4"),
    "sharpbalance/gsam": ("supported", "holds in 5 of 5"),
    "sharpbalance/wins-ood": ("supported", "holds in 6 of 6"),
    "sharpbalance/wins-id": ("supported", "holds in 6 of 6"),
    "sharpbalance/other-networks": ("supported", "holds in 6 of 6"),
    "sharpbalance/scoring-cost": ("supported", "0.992"),
    "sharpbalance/tradeoff": ("supported", "8 of 8"),
    "sed/aggregations": ("refuted", "oracle selection"),
    "sed/best-detector": ("undecided", "openimages_o"),
    "sed/unique": ("supported", "16 of 16"),
    "rethinking/baseline-flattest": ("refuted", "sam_sharpness at table2"),
    "rethinking/baseline-worst": ("refuted", "of 40 comparisons"),
    "rethinking/sam-sharpens": ("supported", "holds in 14 of 14"),
    "rethinking/safety-is-sharp": ("supported", "54 of 54"),
}


@pytest.mark.parametrize("name", PRINTED)
def test_what_the_papers_print_is_judged_by_the_letter(name):
    (found,) = verdicts(Evidence(()), [by_name(name)])
    outcome, words = PRINTED[name]
    assert found.printed.outcome == outcome
    assert words in found.printed.why
    assert found.outcome == "no data"


def test_the_paper_s_own_exceptions_are_not_counted_against_it():
    """SAM sharpness of augmentation and on CIFAR-100; deep ensembles of five."""
    found = rethinking.sam_sharpens(printed_evidence(), rethinking.IN_TEXT, "paper")
    of_sam = [each.where for each in found if "sam_sharpness" in each.where]
    assert [where.split()[0] for where in of_sam] == [
        "baseline_sam",
        "weight_decay_sam",
    ]
    assert all("table1" in where for where in of_sam)
    oracle = [
        each.where
        for each in sed.shifted_accuracy(printed_evidence(), ["sed/table2"])
        if "oracle" in each.where and "against deep_ensemble" in each.where
    ]
    assert oracle
    assert not any("ensemble size 5," in where for where in oracle)


def test_verdicts_as_a_document_and_as_markdown():
    name = "sharpbalance/wins-ood"
    found = verdicts(Evidence(tuple(Datum(e, "small") for e in CASES[name](1))))
    written = json.loads(as_json(document(found)))
    assert unseal("claims", written, "claims")["level"] == 0.05
    (first,) = [row for row in written["verdicts"] if row["claim"] == name]
    assert (first["outcome"], first["size"]) == ("transfers", "small")
    assert first["why"].startswith("It holds in 6 of 6 comparisons")
    assert len(first["findings"]) == 6
    assert first["findings"][0]["region"] == [0.0, None]
    rest = f"no data {len(CLAIMS) - 5}"
    text = markdown(found)
    assert f"\nsmall: transfers 1; computed: supported 2, refuted 2; {rest}.\n" in text
    assert "| `sharpbalance/wins-ood` SharpBalance is more" in text
    (absent,) = [verdict for verdict in found if verdict.claim.name == "sed/unique"]
    assert cells(absent) == ["", "no data", "", "", "", "", "supported"]


def lists(**ways):
    """The sizes of a claim by the heading below which it is listed."""
    name = "sharpbalance/wins-ood"
    data = [Datum(e, size) for size, way in ways.items() for e in CASES[name](way)]
    text = overview(verdicts(Evidence(tuple(data))))
    blocks = re.findall(r"^- \*\*(.*)\*\* \((\d+)\):\n((?:    - .*\n)+)", text, re.M)
    assert all(int(count) == len(items.splitlines()) for _, count, items in blocks)
    said = by_name(name).text.removesuffix(".")
    found = {h: re.search(rf"- {said}(?:: )?(`.*)?\n", i) for h, _, i in blocks}
    return {heading: item[1] or "" for heading, item in found.items() if item}


def test_an_overview_lists_each_claim_by_what_some_size_decides():
    assert lists(medium=1) == {"Supported": "`medium`"}
    assert lists(medium=-1) == {"Refuted": "`medium`"}
    assert lists(small=0, medium=0) == {"Undecided": "`medium`, `small`"}
    assert lists(small=1, medium=0) == {"Transfers": "`small`"}
    both = {"Supported": "`paper`", "Refuted": "`medium`"}
    assert lists(paper=1, medium=-1) == both
    assert lists() == {"No data": ""}


def test_what_decides_is_the_mildest_failure_in_general_and_the_clearest_if_always():
    worse, worst = finding(-0.5, freedom=50), finding(-9.0, freedom=50)
    assert decide([worse, worst], "generally").finding is worse
    assert decide([worse, worst], "always").finding is worst


RECORD = repeated("sharpbalance/figure7a", "sam", "eir", 0.5, 0.1, ensemble_size=3)


def stored(folder, *records, size="small", item="sharpbalance/figure7", **settings):
    folder.mkdir(parents=True)
    write_results(folder, Results(item, "title", size, settings, {}, records))


def test_sizes_stay_apart_a_shortened_run_is_another_and_smoke_is_no_evidence(tmp_path):
    sizes = ("paper", "paper+epochs=80+ensembles=1", "paper+methods=sam,eoa", "smoke")
    methods = ("sam", "sam", "eoa", "sam")
    for size, method in zip(sizes, methods, strict=True):
        folder = tmp_path / size / "sharpbalance/figure7"
        settings = {"cifar10": {"epochs": 80, "rho": 0.1}}
        stored(folder, replace(RECORD, method=method), size=size, **settings)
    found = read_evidence(tmp_path)
    assert found.sizes(["sharpbalance/figure7"]) == [*sizes[:2]]
    assert {each.record.method for each in found.at("paper").data} == {"sam", "eoa"}
    assert {(each.epochs, each.rho) for each in found.data} == {(80, 0.1)}


def test_the_same_number_twice_is_one_and_different_ones_are_refused(tmp_path):
    stored(tmp_path / "small/sharpbalance/figure7", RECORD)
    stored(tmp_path / "small/sharpbalance/figure7a", RECORD)
    assert [each.record for each in read_evidence(tmp_path).data] == [RECORD]
    stored(tmp_path / "small/sharpbalance/figure7b", replace(RECORD, value=0.6))
    with pytest.raises(ValueError, match=r"hold different numbers.*remove one of them"):
        read_evidence(tmp_path)


def test_panels_belong_to_their_figure_and_other_figures_do_not():
    items = ["x/figure1", "x/figure1b", "x/figure12", "x/figure12a"]
    data = tuple(Datum(replace(RECORD, item=item), "small") for item in items)
    found = [each.record.item for each in Evidence(data).find(["x/figure1"])]
    assert found == ["x/figure1", "x/figure1b"]
    assert Evidence(data).has("x/figure12a")
    assert not Evidence(data).has("x/figure2")


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_documents_have_the_same_digits_wherever_they_were_computed(value):
    expected = Context(prec=DIGITS).create_decimal(Decimal(value))
    assert rounded({"a": [value]}) == {"a": [float(expected)]}
