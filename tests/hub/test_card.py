"""Model cards say what an ensemble is and what its evaluation found."""

import math

import pytest
import torch
import yaml
from torch import nn

import tepui
from tepui.data.preparation import preparation_of
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


def test_shifted_data_have_their_column(ensemble, data):
    noisy = tepui.data.Arrays(data.inputs + 1, data.targets)
    evaluation = tepui.evaluate(ensemble, data, shifted={("noise", 1): noisy})
    text = parts(model_card(ensemble, evaluation, data="halves"))[1]
    clean, shifted = evaluation.clean.accuracy, evaluation.corrupted_mean.accuracy
    assert f"| accuracy | {clean:.4g} | {shifted:.4g} |" in text
    assert "| score | clean | corrupted |" in text
    assert "Corrupted by noise: the mean over all copies." in text


def test_natural_shifts_have_columns_of_their_names(ensemble, data):
    sketch = tepui.data.Arrays(data.inputs + 1, data.targets)
    evaluation = tepui.evaluate(ensemble, data, shifted={"sketch": sketch})
    text = parts(model_card(ensemble, evaluation, data="halves"))[1]
    clean, found = evaluation.clean.accuracy, evaluation.natural["sketch"].accuracy
    assert "| score | clean | sketch |" in text
    assert f"| accuracy | {clean:.4g} | {found:.4g} |" in text
    assert "Corrupted" not in text


def test_the_ensemble_is_described(ensemble):
    text = parts(model_card(ensemble, place="someone/mine"))[1]
    weights = 2 * (4 * 8 + 8 + 8 * 2 + 2)
    assert f"| parameters | {weights} |" in text
    assert "| members | 2 |" in text
    assert "| model | MLP |" in text
    assert "| task | classification |" in text
    assert 'from_pretrained("someone/mine")' in text
    assert "factory" not in text
    assert "has not been evaluated" in text


def test_names_cannot_break_the_page(ensemble):
    card = model_card(ensemble, title="a\n---\nlicense: mit <script>")
    head, text = parts(card)
    assert "license" not in head
    assert "| classes | a\\|b, \\<c\\> |" in text
    assert "<script>" not in text.replace("\\<", "")


def test_calibration_and_sets_are_named(data):
    made = tepui.Ensemble.build(lambda: MLP(4, (8,), 2), members=2, seed=1)
    made.calibrate(data)
    made.conformal(data, coverage=0.8)
    sketch = tepui.data.Arrays(data.inputs + 1, data.targets)
    evaluation = tepui.evaluate(made, data, shifted={"sketch": sketch})
    text = parts(model_card(made, evaluation, data="halves"))[1]
    assert "| calibrated by | temperature |" in text
    assert "| conformal sets | for a coverage of 0.8 |" in text
    clean, shifted = evaluation.applied, evaluation.applied_natural["sketch"]
    assert f"| nll | {clean.nll:.4g} | {shifted.nll:.4g} |" in text
    assert f"| coverage | {clean.coverage:.4g} | {shifted.coverage:.4g} |" in text


def test_members_that_need_a_factory_say_so():
    made = tepui.Ensemble.build(lambda: nn.Linear(4, 3), members=2)
    assert "pass `factory=`" in model_card(made)
    assert "pass `extractor=`" not in model_card(made)


def test_an_extractor_of_ones_own_says_so():
    body = nn.Sequential(nn.Linear(4, 8), nn.ReLU()).eval()
    made = tepui.Ensemble.on_features(body, lambda: MLP(8, (4,), 2), members=2)
    card = model_card(made)
    assert "pass `extractor=`" in card
    assert "pass `factory=`" not in card


def test_the_tokenizer_of_texts_is_named():
    texts = tepui.data.Texts(["one two", "three"], [0, 1], vocabulary=2048, length=6)
    made = tepui.Ensemble.build(lambda: nn.Linear(4, 2), members=2)
    made.preparation = preparation_of(texts)
    assert "| texts | Tokenizer, stored with it; at most 6 tokens |" in model_card(made)


def test_an_evaluation_of_something_else_is_refused(evaluation):
    other = tepui.Ensemble.build(lambda: MLP(4, (8,), 2), members=3)
    rule = "evaluation must be of this ensemble, which has 3 members, got '2 members'"
    with pytest.raises(ValueError, match=rule):
        model_card(other, evaluation, data="halves")


def test_data_of_an_evaluation_have_a_name(ensemble, evaluation):
    with pytest.raises(ValueError, match="data must name the data of the evaluation"):
        model_card(ensemble, evaluation)
