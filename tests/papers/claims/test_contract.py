"""Every claim can come out in every way, and says what it rests on."""

import random
from dataclasses import replace
from functools import cache

import pytest

from claim_cases import CASES, repeated, swept, timed
from tepui.papers.claims.evidence import Datum, Evidence
from tepui.papers.claims.judging import CLAIMS, verdicts
from tepui.papers.claims.tables import cells, overview
from tepui.papers.recipe import PAPERS

BY_NAME = {claim.name: claim for claim in CLAIMS}
WAYS = {1: "transfers", -1: "does not transfer", 0: "undecided"}
ON_REAL_DATA = {1: "supported", -1: "refuted", 0: "undecided"}


def evidence(records, size="small"):
    return Evidence(tuple(Datum(each, size, 200) for each in records))


def every(*several):
    return Evidence(tuple(datum for each in several for datum in each.data))


def verdict(name, data):
    (found,) = verdicts(data, [BY_NAME[name]])
    return found


def once(record):
    """What a single repetition would have left."""
    return replace(record, values=record.values[:1], n=1, sem=None, interval=None)


@cache
def case(name, way):
    return evidence(CASES[name](way), "medium" if BY_NAME[name].circular else "small")


def cases(way):
    each = [pytest.param(name, case(name, way), id=name) for name in CASES]
    return pytest.mark.parametrize(("name", "data"), each)


def test_every_claim_has_a_case():
    trained = [name for name, claim in BY_NAME.items() if claim.needs]
    assert sorted(CASES) == sorted(trained)
    assert len(BY_NAME) == len(CLAIMS)
    assert {name.split("/")[0] for name in BY_NAME} == {*PAPERS}


@pytest.mark.parametrize("way", WAYS, ids=WAYS.get)
@pytest.mark.parametrize("name", CASES)
def test_every_claim_can_come_out_in_every_way(name, way):
    found = verdict(name, case(name, way))
    expected = (ON_REAL_DATA if BY_NAME[name].circular else WAYS)[way]
    assert found.outcome == expected, found.why
    assert found.reason == ""
    assert found.p is not None
    assert (found.p <= 0.05) == (way != 0)
    shown = found.decision.finding
    low, high = shown.interval
    assert low <= shown.effect <= high
    assert found.why.endswith(".")
    assert cells(found)[1] == expected


@pytest.mark.parametrize("repeats", ["", "+ensembles=9", "+rho=0.05"])
@pytest.mark.parametrize(
    ("size", "holds", "fails"),
    [
        ("small", "transfers", "does not transfer"),
        ("medium", "supported", "refuted"),
        ("paper", "supported", "refuted"),
        ("computed", "supported", "refuted"),
    ],
)
def test_only_real_data_support_or_refute(size, repeats, holds, fails):
    name = "sharpbalance/wins-ood"
    found = [verdict(name, evidence(CASES[name](w), size + repeats)) for w in (1, -1)]
    assert [each.outcome for each in found] == [holds, fails]


@cases(1)
def test_order_does_not_matter(name, data):
    shuffled = list(data.data)
    random.Random(0).shuffle(shuffled)
    first, second = verdict(name, data), verdict(name, Evidence(tuple(shuffled)))
    assert (first.outcome, first.p) == (second.outcome, pytest.approx(second.p))
    assert sorted(f.where for f in first.findings) == sorted(
        f.where for f in second.findings
    )


@cases(1)
def test_one_repetition_decides_nothing(name, data):
    if any(each.record.metric == "beta" for each in data.data):
        return  # one ensemble per radius is what the paper has
    few = [replace(each, record=once(each.record)) for each in data.data]
    found = verdict(name, Evidence(tuple(few)))
    assert (found.outcome, found.p) == ("undecided", None)
    assert found.why == "No comparison has repetitions that differ."


@cases(1)
def test_undefined_numbers_are_left_out(name, data):
    undefined = [replace(each.record, value=None) for each in data.data]
    found = verdict(name, evidence(undefined))
    assert found.outcome == "no data"
    assert found.why == "The numbers there allow no comparison."
    nothing = verdict(name, evidence([]))
    assert nothing.outcome == "no data"
    assert nothing.why.startswith(f"Needs {BY_NAME[name].needs[0]}")


@cases(1)
def test_support_needs_everything_that_is_claimed(name, data):
    claim = BY_NAME[name]
    if len(claim.needs) < 2:
        return
    kept = [each for each in data.data if each.record.item != claim.needs[0]]
    found = verdict(name, Evidence(tuple(kept)))
    assert found.outcome == "undecided", found.why
    assert f"no numbers of {claim.needs[0]}" in found.why


@cases(-1)
def test_a_counter_example_refutes_what_is_claimed_always(name, data):
    claim = BY_NAME[name]
    if len(claim.needs) < 2:
        return
    fails = [each for each in data.data if each.record.item == claim.needs[0]]
    holds = [
        Datum(record, "small", 200)
        for record in CASES[name](1)
        if record.item != claim.needs[0]
    ]
    found = verdict(name, Evidence((*fails, *holds)))
    expected = {"always": WAYS[-1], "generally": "undecided"}[claim.scope]
    assert found.outcome == expected, found.why
    assert "fails in" in found.why
    assert "holds in" in found.why


def test_a_lead_is_that_over_the_better_baseline():
    """SharpBalance gains on SAM, and falls behind plain ensembles."""
    name = "sharpbalance/gap-size"
    item, metric = "sharpbalance/figure8", "ensemble_accuracy"
    others = [each for each in CASES[name](1) if each.method != "deep_ensemble"]
    plain = [
        repeated(item, "deep_ensemble", metric, 70 + size**2, ensemble_size=size)
        for size in (1, 2, 3, 4, 5)
    ]
    found = verdict(name, evidence([*others, *plain]))
    assert found.outcome == WAYS[-1]
    assert "the better of deep_ensemble and sam" in found.why


def test_a_slope_that_several_panels_show_counts_once():
    def shown(item, config_hash, diversity="der"):
        names = {"config_hash": config_hash, "diversity": diversity}
        return swept(f"sharpbalance/{item}", 0.5, **names)

    found = verdict(
        "sharpbalance/tradeoff",
        evidence(
            record
            for sweep in (
                shown("figure3", "a"),
                shown("figure4a", "a"),
                shown("figure12c", "a", "kl"),
                shown("figure12f", "a", "kl"),
                shown("figure4b", "b"),
                shown("figure5a", "c"),
                shown("figure5b", "c"),
            )
            for record in sweep
        ),
    )
    assert found.outcome == WAYS[1]
    assert [each.where.split()[1] for each in found.findings] == [
        "figure12c,",
        "figure3,",
        "figure4b,",
        "figure5a,",
    ]


def test_a_slope_is_fitted_to_radii_up_to_that_of_table_1():
    """Members that break at a larger radius say nothing about the trade-off."""
    found = verdict("sharpbalance/tradeoff", case("sharpbalance/tradeoff", 1))
    for finding in found.findings:
        assert finding.effect == pytest.approx(0.5, abs=0.02)
        assert finding.n == 24


@pytest.mark.parametrize("first", [1, -1])
def test_sizes_have_verdicts_of_their_own(first):
    name = "sharpbalance/fisher-curvature"
    short = "paper+epochs=80+ensembles=1"
    sizes = {"small": -first, short: 0, "medium": first, "paper": first}
    data = [evidence(CASES[name](way), size) for size, way in sizes.items()]
    found = verdicts(every(*data), [BY_NAME[name]])
    assert [each.size for each in found] == ["paper", short, "medium", "small"]
    real = {1: "supported", -1: "refuted"}[first]
    outcomes = [real, "undecided", real, WAYS[-first]]
    assert [each.outcome for each in found] == outcomes
    assert all(len(each.findings) == 1 for each in found)


def test_claims_of_a_paper_are_corrected_together_size_by_size():
    names = ["sharpbalance/wins-ood", "sharpbalance/wins-id"]
    names += ["sharpbalance/wins-ood-released", "sed/unique"]
    claims = [BY_NAME[name] for name in names]
    data = [case(name, 1) for name in names]
    together = verdicts(every(*data), claims)
    alone = [verdict(name, case(name, 1)) for name in names]
    ratios = [a.p / b.p for a, b in zip(together, alone, strict=True)]
    assert max(ratios[:2]) == pytest.approx(2)
    assert ratios[2:] == pytest.approx([1, 1])
    other = evidence(CASES[names[1]](1), "paper")
    assert verdicts(every(data[0], other), claims[:1])[0].p == pytest.approx(alone[0].p)


def test_what_a_size_does_not_have_is_said_and_does_not_block():
    name = "sharpbalance/wins-ood"
    part = [each for each in CASES[name](1) if not each.item.endswith("7c")]
    for size, outcome in (("medium", "supported"), ("small", "undecided")):
        found = verdict(name, evidence(part, size))
        assert found.outcome == outcome
    assert "no numbers of sharpbalance/figure7c" in found.why
    found = verdict(name, evidence(part, "medium+ensembles=5"))
    assert "medium size does not have sharpbalance/figure7c" in found.why


def treated(unique=2.5, lost=0.0):
    """SED's members, how they differ on shifted images and what they lose on others."""
    for dataset, mean in (("imagenet_c1", unique), ("imagenet_val", 9.0)):
        metric = "unique_predictions"
        yield repeated("sed/table1", "sed_a2d", metric, mean, 0.1, dataset)
    for size, less in ((5, lost), (50, 9.0)):
        at = {"dataset": "imagenet_val", "ensemble_size": size}
        yield repeated("sed/table2", "sed_a2d", "accuracy", 70 - less, 0.1, **at)
        yield repeated("sed/table2", "deep_ensemble", "accuracy", 70, **at)


DIFFER, KEEPS = "SED's members differ", "SED keeps its accuracy in domain"


@pytest.mark.parametrize("way", [1, -1])
@pytest.mark.parametrize(
    ("how", "failed"),
    [
        ({"lost": 0.3}, []),
        ({"unique": 1.3}, [DIFFER]),
        ({"lost": 0.8}, [KEEPS]),
        ({"unique": 1.3, "lost": 0.8}, [DIFFER, KEEPS]),
    ],
)
def test_sed_is_judged_only_if_members_differ_and_stay_accurate(how, failed, way):
    name = "sed/pds-over-bma"
    found = verdict(name, evidence([*CASES[name](way), *treated(**how)]))
    assert [each.name for each in found.checks if not each.holds] == failed
    reason = f"check failed: {', '.join(failed)}" if failed else ""
    assert (found.reason, found.p is None) == (reason, bool(failed))
    assert found.outcome == ("undecided" if failed else WAYS[way])
    beside = f" ({reason})" if failed else ""
    assert cells(found)[1] == found.outcome + beside
    assert f": `small`{beside}\n" in overview([found])


@pytest.mark.parametrize("name", [name for name in CASES if "rethinking" in name])
def test_controls_are_judged_only_if_their_treatment_raises_accuracy(name):
    control = "baseline_sam" if "sam-sharpens" in name else "augmentation"
    treatment = "SAM" if "sam-sharpens" in name else "augmentation"
    for worse in ("baseline_sam", "augmentation", "weight_decay"):
        records = [
            replace(each, values=tuple(v - 9 for v in each.values))
            if (each.method, each.metric) == (worse, "accuracy")
            else each
            for each in CASES[name](-1)
        ]
        found = verdict(name, evidence(records))
        failed = f"check failed: {treatment} raises accuracy"
        assert found.reason == (failed if worse == control else "")
        assert found.outcome == ("undecided" if worse == control else WAYS[-1])


@pytest.mark.parametrize(
    ("exponent", "outcome"),
    [(0.6, "undecided"), (1.27, "undecided"), (1.7, WAYS[1]), (2.5, WAYS[-1])],
)
def test_slow_growth_is_not_seen_to_be_quadratic(exponent, outcome):
    make = timed(["a2d", "divdis"], exponent, 0, 0)
    found = verdict("sed/naive-quadratic", evidence(make(1)))
    assert found.outcome == outcome
    assert ("nearer to M² than to M" in found.reason) == (outcome == "undecided")


@pytest.mark.parametrize("way", [1, -1])
def test_what_chose_its_own_operating_point_is_circular_on_stand_ins(way):
    name = "sed/unique"
    found = verdict(name, evidence(CASES[name](way), "small+ensembles=9"))
    reason = "circular: the weight was chosen by this measure"
    assert (found.outcome, found.reason, found.p) == ("undecided", reason, None)
    assert verdict(name, case(name, way)).outcome == ON_REAL_DATA[way]
    assert verdict(name, evidence([])).reason == ""


def sharpness_by_radius(**values):
    at = {"sharpness_measure": "worst_case", "ensemble_size": 3}
    for name, value in {"r0": 1.0, **values}.items():
        rho = int(name[1:]) / 100
        method, swing = ("sam", 0.01) if rho else ("deep_ensemble", 0.0)
        names = ("sharpbalance/figure3", method, "sharpness", value, swing)
        yield repeated(*names, rho=rho, **at)


@pytest.mark.parametrize(
    ("small", "judged"), [(1.1, False), (0.95, False), (0.85, True)]
)
def test_sam_must_flatten_with_the_radius_that_the_study_has(small, judged):
    name = "sharpbalance/sam-individual"
    bars = evidence(CASES[name](1))
    own = Evidence(tuple(replace(datum, rho=0.01) for datum in bars.data))
    found = verdict(name, every(own, evidence(sharpness_by_radius(r1=small, r20=0.5))))
    assert found.outcome == (WAYS[1] if judged else "undecided")
    assert ("SAM lowers sharpness by a tenth" in found.reason) != judged
    assert "radius 0.01, figure3, cifar10" in found.why
    assert found.checks[0].finding.effect == pytest.approx(1 - small)


@pytest.mark.parametrize(("flat", "judged"), [(2.0, False), (0.5, True)])
def test_a_larger_study_has_the_check_of_its_size(flat, judged):
    name = "sharpbalance/sam-individual"
    larger = evidence(CASES[name](1), "small+ensembles=9")
    checked = evidence(sharpness_by_radius(r20=flat, r40=9.0), "small")
    (found,) = verdicts(every(larger, checked), [BY_NAME[name]])
    assert found.size == "small+ensembles=9"
    assert ("Not judged" in found.why) != judged
    assert "at size small" in found.why
    for size in ("medium", "small+epochs=2", "small+ensembles=9+members=2"):
        other = evidence(CASES[name](1), size)
        (found,) = verdicts(every(other, checked), [BY_NAME[name]])
        assert found.outcome == ("supported" if size == "medium" else WAYS[1])
        assert "by a tenth: not measured at this size" in found.why


def test_scoring_is_judged_for_as_many_epochs_as_the_paper_trains():
    name = "sharpbalance/scoring-cost"
    short = [Datum(each, "small", epochs=30) for each in CASES[name](-1)]
    found = verdict(name, Evidence(tuple(short)))
    assert found.outcome == WAYS[1]
    assert found.decision.finding.effect == pytest.approx(2.5 * 30 / 200)
    unknown = [Datum(each, "small") for each in CASES[name](-1)]
    assert verdict(name, Evidence(tuple(unknown))).outcome == "no data"
