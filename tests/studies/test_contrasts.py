from functools import partial

import pytest
import torch

import tepui
from tepui.data import Arrays, Digits, corrupted
from tepui.evaluation import read_evaluation
from tepui.losses import MSE
from tepui.methods import SAM, DeepEnsemble
from tepui.models import MLP
from tepui.studies import compare, crossed_difference, holm, read_results
from tepui.studies.comparison_records import corrected_together, sample_scores

METHODS = [DeepEnsemble(), SAM(rho=0.1)]
SMALL = {"members": 2, "epochs": 1, "batch_size": 64, "equal": None, "progress": "none"}


def study(out, methods=METHODS, ensembles=3, **changes):
    test = Digits(train=False)
    options = {
        "shifted": {
            **corrupted(test, types=("contrast",), severities=(1, 5)),
            "half": Arrays(test.inputs[:320], test.targets[:320]),
        },
        "ensembles": ensembles,
        **SMALL,
        **changes,
    }
    train = Digits().subset(range(300))
    factory = partial(MLP, hidden=(8,))
    return compare(methods, factory, train, test, out=out, **options)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    out = tmp_path_factory.mktemp("contrasts") / "run"
    return study(out), out


def test_sample_scores_have_the_means_of_the_evaluation(found):
    _, out = found
    folder = out / "SAM" / "1"
    evaluation = read_evaluation(folder)
    score, values = sample_scores(folder)
    tables = {"clean": evaluation["clean"], "shifted": evaluation["shifted"]}
    tables["half"] = evaluation["cells"][-1]
    assert score == "accuracy"
    assert {*values} == {*tables}
    for data, table in tables.items():
        expected = [table["accuracy"], table["individual_accuracy"]]
        assert values[data].mean(1).tolist() == pytest.approx(expected)
    assert {*values["clean"][0].tolist()} == {0.0, 1.0}


def test_records_have_gains_and_differences_with_crossed_intervals(found):
    results, out = found
    folders = [
        [out / name / str(n) for n in range(3)] for name in ("DeepEnsemble", "SAM")
    ]
    own, sam = (
        torch.stack([sample_scores(f)[1]["half"] for f in each]) for each in folders
    )
    gain = results.one(metric="accuracy_gain", method="SAM", dataset="half")
    less = results.one(metric="accuracy_difference", method="SAM", dataset="half")
    assert less.at == {"from": "DeepEnsemble"}
    for record, values in ((gain, sam[:, 0] - sam[:, 1]), (less, (sam - own)[:, 0])):
        expected = crossed_difference(values)
        assert record.value == pytest.approx(expected.mean)
        assert record.interval == pytest.approx((expected.low, expected.high))
    every = results.find(metric="accuracy_difference")
    p = [
        crossed_difference(
            torch.stack([sample_scores(a)[1][r.dataset][0] for a in folders[1]])
            - torch.stack([sample_scores(b)[1][r.dataset][0] for b in folders[0]])
        ).p
        for r in every
    ]
    assert [r.note for r in every] == ["" if q <= 0.05 else "hint" for q in holm(p)]


@pytest.mark.parametrize("helps", [0.0, 0.5])
def test_each_question_errs_in_one_of_twenty_studies_at_most(helps):
    """Three methods on two sets; what the first gains is real or nothing."""
    torch.manual_seed(0)
    methods, sets, rounds = "abc", ("clean", "shifted"), 300
    wrong = {"gain": 0, "difference": 0}
    for _ in range(rounds):
        by_seed, at_sample = torch.randn(3, 1), torch.randn(1, 300)
        drawn = {
            (label, data): by_seed * 0.1 + at_sample + torch.randn(3, 300)
            for label in methods
            for data in sets
        }
        gains = {n: each + helps * (n[0] == "a") for n, each in drawn.items()}
        p = {place: crossed_difference(each).p for place, each in gains.items()}
        firm = {place for place, q in corrected_together(p, "a").items() if q <= 0.05}
        null = "bc" if helps else methods
        wrong["gain"] += any((label, "clean") in firm for label in null)
        less = {
            place: crossed_difference(drawn[place] - drawn["a", place[1]]).p
            for place in p
            if place[0] != "a"
        }
        wrong["difference"] += min(corrected_together(less).values()) <= 0.05
    assert max(wrong.values()) / rounds <= 0.05 + 3 * (0.05 * 0.95 / rounds) ** 0.5


def test_the_method_named_first_answers_for_itself():
    p = {(label, data): 0.03 for label in "abc" for data in ("clean", "shifted")}
    corrected = corrected_together(p, "a")
    assert {corrected["a", data] for data in ("clean", "shifted")} == {0.03}
    assert {corrected[label, "clean"] for label in "bc"} == {0.06}
    assert corrected_together({**p, ("a", "clean"): 0.2}, "a")["b", "clean"] == 0.2


def test_a_method_that_is_added_is_compared_with_the_first(found, tmp_path):
    alone = study(tmp_path, [METHODS[0]])
    later = study(tmp_path, [METHODS[1]], resume=True)
    before, _ = found
    names = {"metric": "accuracy_difference", "dataset": "clean"}
    assert later.one(**names).values == before.one(**names).values
    assert len(later.find(metric="accuracy_gain")) == 6
    assert not alone.find(metric="accuracy_difference")


@pytest.mark.parametrize("how", [{"ensembles": 2}, {"logits_in": "none"}])
def test_without_enough_to_know_it_by_there_is_a_hint_and_no_interval(tmp_path, how):
    results = study(tmp_path, **how)
    assert read_results(tmp_path).records == results.records
    for metric in ("accuracy_gain", "accuracy_difference"):
        for record in results.find(metric=metric):
            assert (record.interval, record.note) == (None, "hint")
            label = "DeepEnsemble" if record.at else record.method
            score = "accuracy" if record.at else "individual_accuracy"
            own = whole(results, record.dataset, record.method, "accuracy")
            other = whole(results, record.dataset, label, score)
            assert record.value == pytest.approx(own - other, abs=1e-6)


def whole(results, dataset, method, metric):
    names = {"dataset": dataset, "method": method, "metric": metric}
    return next(r.value for r in results.find(**names) if not r.at)


def test_errors_of_numbers_are_parts_of_their_root(tmp_path):
    inputs = torch.randn(400, 3, generator=torch.Generator().manual_seed(0))
    data = Arrays(inputs, inputs.sum(1, keepdim=True))
    factory = partial(MLP, num_classes=1, in_features=3, hidden=(8,))
    out = tmp_path / "numbers"
    compare(METHODS, factory, data, data, out=out, ensembles=3, loss=MSE(), **SMALL)
    clean = read_evaluation(out / "SAM" / "0")["clean"]
    score, values = sample_scores(out / "SAM" / "0")
    assert score == "rmse"
    expected = [clean["rmse"], clean["individual_rmse"]]
    assert values["clean"].mean(1).tolist() == pytest.approx(expected)


def test_rows_are_compared_with_a_linear_layer_that_is_a_method(tmp_path):
    inputs = torch.randn(120, 3, generator=torch.Generator().manual_seed(0))
    data = Arrays(inputs, (inputs.sum(1) > 0).long())
    factory = partial(MLP, num_classes=2, in_features=3, hidden=(8,))
    how = {**SMALL, "out": tmp_path, "ensembles": 2}
    found = compare([SAM()], factory, data, data, **how)
    assert [*found.settings["methods"]] == ["SAM", "Linear"]
    member = tepui.load(tmp_path / "Linear" / "1").members[0]
    assert member.config == {"in_features": 3, "hidden": [], "num_classes": 2}
    less = found.one(metric="accuracy_difference")
    assert (less.method, less.at) == ("Linear", {"from": "SAM"})
    again = compare([SAM()], factory, data, data, resume=True, **how)
    assert [r for r in again.records if r.dataset != "prediction"] == [
        r for r in found.records if r.dataset != "prediction"
    ]
    plain = partial(torch.nn.Linear, 3, 2)
    other = compare([SAM()], plain, data, data, **{**how, "out": tmp_path / "plain"})
    assert [*other.settings["methods"]] == ["SAM"]
