"""Model cards say what an ensemble is and what its evaluation found."""

import math

import pytest
import torch
import yaml
from torch import nn

import tepui
from tepui.hub import model_card
from tepui.models import MLP


@pytest.fixture(scope="module")
def data():
    inputs = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
    labels = (inputs[:, 0] > 0).long()
    return tepui.data.Arrays(inputs, labels, classes=("a|b", "<c>"))


@pytest.fixture(scope="module")
def ensemble(data):
    made = tepui.Ensemble.build(lambda: MLP(4, (8,), 2), members=2, seed=1)
    how = {"epochs": 3, "device": "cpu", "progress": "none"}
    tepui.fit(made, data, method=tepui.methods.DeepEnsemble(), **how)
    return made


@pytest.fixture(scope="module")
def evaluation(ensemble, data):
    far = tepui.data.Arrays(data.inputs * 3 + 1, data.targets)
    return tepui.evaluate(ensemble, data, ood={"far": far})


def parts(card):
    """The metadata and the text of a card."""
    _, head, text = card.split("---\n", 2)
    return yaml.safe_load(head), text


def test_numbers_are_those_of_the_evaluation(ensemble, evaluation):
    card = model_card(ensemble, evaluation, data="halves", license="mit", title="Mine")
    head, text = parts(card)
    assert head["license"] == "mit"
    (index,) = head["model-index"]
    (result,) = index["results"]
    assert (index["name"], result["dataset"]["name"]) == ("Mine", "halves")
    written = {metric["type"]: metric["value"] for metric in result["metrics"]}
    scores = evaluation.clean.values()
    assert written == {n: v for n, v in scores.items() if math.isfinite(v)}
    assert written["accuracy"] == evaluation.clean.accuracy
    assert f"| accuracy | {evaluation.clean.accuracy:.4g} |" in text
    assert f"| pds | {evaluation.ood['far']['pds'].auroc:.4g} |" in text
    assert "# Mine" in text
    assert "On 60 samples of halves." in text


def test_shifted_data_have_their_columns_also_after_calibration(data):
    made = tepui.Ensemble.build(lambda: MLP(4, (8,), 2), members=2, seed=1)
    made.calibrate(data)
    made.conformal(data, coverage=0.8)
    other = tepui.data.Arrays(data.inputs + 1, data.targets)
    shifted = {("noise", 1): other, "sketch": other}
    found = tepui.evaluate(made, data, shifted=shifted)
    text = parts(model_card(made, found, data="halves"))[1]
    assert "| calibrated by | temperature |" in text
    assert "| conformal | for a coverage of 0.8 |" in text
    assert text.count("| score | clean | corrupted | sketch |") == 2
    plain = found.clean, found.corrupted_mean, found.natural["sketch"]
    shifted = found.applied_shifted
    applied = found.applied, shifted["noise", 1], shifted["sketch", 0]
    for name, scores in (("accuracy", plain), ("nll", applied), ("coverage", applied)):
        values = " | ".join(f"{getattr(each, name):.4g}" for each in scores)
        assert f"| {name} | {values} |" in text


def test_the_ensemble_is_described_and_names_cannot_break_the_page(ensemble):
    card = model_card(
        ensemble, title="a\n---\nlicense: mit <script>", place="someone/mine"
    )
    head, text = parts(card)
    weights = 2 * (4 * 8 + 8 + 8 * 2 + 2)
    rows = {"parameters": weights, "members": 2, "model": "MLP"}
    for name, value in (rows | {"task": "classification"}).items():
        assert f"| {name} | {value} |" in text
    assert 'from_pretrained("someone/mine")' in text
    assert "factory" not in text
    assert "has not been evaluated" in text
    assert "license" not in head
    assert "| classes | a\\|b, \\<c\\> |" in text
    assert "<script>" not in text.replace("\\<", "")


def test_what_a_reader_must_bring_is_said():
    own = tepui.Ensemble.build(lambda: nn.Linear(4, 3), members=2)
    assert "needs `factory=`" in model_card(own)
    assert "needs `extractor=`" not in model_card(own)
    body = nn.Sequential(nn.Linear(4, 8), nn.ReLU()).eval()
    made = tepui.Ensemble.on_features(body, lambda: MLP(8, (4,), 2), members=2)
    assert "needs `extractor=`" in model_card(made)
    assert "needs `factory=`" not in model_card(made)


def test_an_evaluation_is_of_this_ensemble_and_of_named_data(ensemble, evaluation):
    other = tepui.Ensemble.build(lambda: MLP(4, (8,), 2), members=3)
    with pytest.raises(ValueError, match="evaluation must be of this ensemble, which"):
        model_card(other, evaluation, data="halves")
    with pytest.raises(ValueError, match="data must name the data of the evaluation"):
        model_card(ensemble, evaluation)
