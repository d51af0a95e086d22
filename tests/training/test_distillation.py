"""One network learns what an ensemble predicts."""

import pytest
import torch
from torch import nn

import tepui
from tepui import Ensemble
from tepui.data import Arrays, HorizontalFlip
from tepui.losses import SoftCrossEntropy
from tepui.methods import SAM
from training.cases import (
    Plain,
    assert_same_bits,
    convnet,
    images,
    linear,
    numbers,
    untimed,
)


def teacher(data, factory, **how):
    ensemble = Ensemble.build(factory, members=3)
    how = {"method": tepui.methods.DeepEnsemble(), "epochs": 3} | how
    return tepui.fit(ensemble, data, progress="none", batch_size=8, **how).ensemble


def distilled(ensemble, data, factory, **how):
    how = {"epochs": 3, "progress": "none", "batch_size": 8} | how
    return tepui.distil(ensemble, data, factory, **how)


def test_the_student_learns_the_mean_probabilities_of_the_members():
    ensemble, data = teacher(numbers(), linear), numbers(seed=1)
    run = distilled(ensemble, data, linear, temperature=2.0, seed=5)
    logits = ensemble.logits(data.inputs)
    soft = Arrays(data.inputs, (logits / 2).softmax(2).mean(0))
    student = Ensemble.build(linear, 1, seed=5, task=tepui.tasks.Classes())
    by_hand = tepui.fit(
        student,
        soft,
        method=tepui.methods.DeepEnsemble(),
        loss=SoftCrossEntropy(2.0),
        epochs=3,
        batch_size=8,
        progress="none",
    )
    assert_same_bits(run.ensemble.state_dict(), by_hand.ensemble.state_dict())
    assert untimed(run.history) == untimed(by_hand.history)


def test_the_loss_is_that_of_hinton():
    outputs = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    probs = torch.randn(5, 3, dtype=torch.float64).softmax(1)
    losses = SoftCrossEntropy(4.0)(outputs, probs)
    torch.testing.assert_close(
        losses, -16 * (probs * (outputs / 4).log_softmax(1)).sum(1)
    )
    # At a high temperature its gradient does not vanish.
    (gradient,) = torch.autograd.grad(
        SoftCrossEntropy(1e4)(outputs, probs).sum(), outputs
    )
    assert gradient.abs().max() > 1


def test_labels_are_not_read():
    ensemble, data = teacher(numbers(), linear), numbers(seed=1)
    none = Arrays(data.inputs, torch.full_like(data.targets, -1))
    first, second = (distilled(ensemble, d, linear) for d in (data, none))
    assert_same_bits(first.ensemble.state_dict(), second.ensemble.state_dict())


@pytest.mark.parametrize("wrap", [lambda d: d, Plain], ids=["held", "own"])
def test_a_resumed_run_ends_at_the_same_bits(tmp_path, wrap):
    data = wrap(images())
    ensemble = teacher(images(), convnet)
    how = {"method": SAM(), "augment": [HorizontalFlip()], "validation": 0.25}
    how |= {"keep": "best", "device": "cpu"}
    whole = distilled(ensemble, data, convnet, **how)
    distilled(ensemble, data, convnet, out=tmp_path / "run", stop_after=1, **how)
    parts = distilled(ensemble, data, convnet, out=tmp_path / "run", resume=True, **how)
    assert_same_bits(whole.ensemble.state_dict(), parts.ensemble.state_dict())
    assert whole.history[-1].validation_accuracy is not None
    loaded = tepui.load(tmp_path / "run")
    assert len(loaded) == 1
    assert loaded.predict(images().inputs).probs.shape == (24, 3)


def test_numbers_and_labels_have_students():
    x = numbers().inputs
    answers = Arrays(x, x[:, :2].clone())
    ensemble = teacher(answers, lambda: nn.Linear(4, 2), loss=tepui.losses.MSE())
    run = distilled(ensemble, answers, lambda: nn.Linear(4, 2))
    assert isinstance(run.ensemble.task, tepui.tasks.Numbers)
    yes = Arrays(x, (x[:, :2] > 0).float())
    loss = tepui.losses.BinaryCrossEntropy()
    ensemble = teacher(yes, lambda: nn.Linear(4, 2), loss=loss)
    run = distilled(ensemble, yes, lambda: nn.Linear(4, 2))
    assert isinstance(run.ensemble.task, tepui.tasks.Labels)


@pytest.mark.parametrize(
    ("loss", "how", "message"),
    [
        (tepui.losses.GaussianNLL(), {}, "task must have students"),
        (tepui.losses.MSE(), {"temperature": 2.0}, "temperature must be 1 for numbers"),
        (tepui.losses.MSE(), {"temperature": 0.0}, "temperature must be positive"),
    ],
)
def test_what_cannot_be_taught_is_refused(loss, how, message):
    x = numbers().inputs
    ensemble = Ensemble.build(lambda: nn.Linear(4, 2), members=2)
    ensemble.task = tepui.tasks.task_of(loss)
    with pytest.raises(ValueError, match=message):
        distilled(ensemble, Arrays(x, x[:, :1]), lambda: nn.Linear(4, 2), **how)
