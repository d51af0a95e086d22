"""Scores of validation data: those that evaluation finds for single members."""

import math

import pytest
from torch import nn

import tepui
from tepui.data import Arrays
from tepui.losses import MSE, BinaryCrossEntropy, CrossEntropy, GaussianNLL, Quantiles
from training.cases import CLASSES, fitted, images, numbers


def labels(samples, seed):
    data = numbers(samples, seed=seed)
    return Arrays(data.inputs, (data.inputs[:, :3] > 0.5).float())


def values(samples, seed):
    data = numbers(samples, seed=seed)
    return Arrays(data.inputs, data.inputs[:, :2] * 2)


def pixels(samples, seed):
    data = images(samples, seed=seed)
    classes = (data.inputs[:, 0] * 3).long().clamp(max=CLASSES - 1)
    classes[:, 0] = -100
    return Arrays(data.inputs, classes)


CASES = {
    "classes": (numbers, CrossEntropy(), nn.Linear(4, CLASSES), "accuracy"),
    "labels": (labels, BinaryCrossEntropy(), nn.Linear(4, 3), "accuracy"),
    "pixels": (pixels, CrossEntropy(), nn.Conv2d(1, CLASSES, 1), "accuracy"),
    "numbers": (values, MSE(), nn.Linear(4, 2), "rmse"),
    "means": (values, GaussianNLL(), nn.Linear(4, 4), "rmse"),
    "quantiles": (values, Quantiles((0.1, 0.4, 0.7)), nn.Linear(4, 6), "rmse"),
}


@pytest.mark.parametrize("name", CASES)
def test_scores_are_those_of_evaluation(name):
    make, loss, model, score = CASES[name]
    make = (lambda n, seed: numbers(n, seed=seed)) if make is numbers else make
    held_out = make(37, seed=1)

    def factory():
        layer = nn.Conv2d(1, CLASSES, 1) if name == "pixels" else None
        return layer or nn.Linear(model.in_features, model.out_features)

    how = {"loss": loss, "validation": held_out, "optimizer": tepui.SGD(lr=0.01)}
    run = fitted(make(24, seed=0), factory, epochs=1, **how)
    found = tepui.evaluate(run.ensemble, held_out).clean
    expected = getattr(
        found, "member_accuracies" if score == "accuracy" else "member_rmses"
    )
    record = run.history[0]
    assert getattr(record, f"validation_{score}") == pytest.approx(expected, rel=1e-6)
    other = "rmse" if score == "accuracy" else "accuracy"
    assert getattr(record, f"validation_{other}") == ()


def test_without_validation_or_a_task_there_is_no_score():
    assert fitted(images()).history[0].validation_accuracy == ()

    def own(outputs, targets):
        return (outputs[:, 0] - targets).square()

    record = fitted(images(), loss=own, validation=0.25, epochs=1).history[0]
    assert (record.validation_accuracy, record.validation_rmse) == ((), ())
    assert len(record.validation_loss) == 2


def test_an_average_is_scored_where_it_is_validated():
    run = fitted(images(), validation=0.25, average=1.0, epochs=3)
    held_out = tepui.data.split(images(), 0.25, seed=0)[1]
    expected = tepui.evaluate(run.ensemble, held_out).clean.member_accuracies
    assert run.history[-1].validation_accuracy == pytest.approx(expected)
    assert not math.isnan(run.history[-1].validation_accuracy[0])
