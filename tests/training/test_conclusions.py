"""What a run says of its members when it has ended."""

import math
import warnings

import pytest
import torch
from torch import nn

import tepui
from tepui import tasks
from tepui.data import Arrays
from tepui.evaluation.dead_members import information, silent_members
from tepui.losses import MSE, BinaryCrossEntropy, CrossEntropy, GaussianNLL, Quantiles
from tepui.methods import A2D, DeepEnsemble

LABELS = torch.arange(60) % 3
DATA = Arrays(5 * torch.eye(3)[LABELS], LABELS)
X = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))


class Dead(nn.Module):
    """A member whose outputs depend on no input."""

    def __init__(self):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(3))

    def forward(self, inputs):
        return self.bias.expand(len(inputs), -1)


def fitted(factories, data=DATA, **options):
    ensemble = tepui.Ensemble.build(factories, seed=0)
    how = {"method": DeepEnsemble(), "epochs": 8, "progress": "none", **options}
    return tepui.fit(ensemble, data, **how)


def test_fit_names_a_member_that_learned_nothing():
    factories = [lambda: nn.Linear(3, 3), Dead, lambda: nn.Linear(3, 3)]
    with pytest.warns(UserWarning, match="member 1 may not have learned") as log:
        fitted(factories)
    assert "the training data" in str(log[0].message)
    assert log[0].filename == __file__
    with pytest.warns(UserWarning, match="on the validation data"):
        fitted(factories, validation=0.2)


def test_members_that_return_probabilities_are_told_once():
    def probabilities():
        return nn.Sequential(nn.Linear(3, 3), nn.Softmax(1))

    with warnings.catch_warnings(record=True) as log:
        warnings.simplefilter("always")
        fitted([probabilities] * 2)
    said = [str(each.message) for each in log]
    assert sum("members seem to return probabilities" in text for text in said) == 1


def test_members_that_learn_alike_are_not_named():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = fitted([lambda: nn.Linear(3, 3)] * 2)
    text = str(run)
    assert text.startswith("2 members trained for 8 epochs (classification)")
    assert "training loss" in text
    alone = str(fitted([lambda: nn.Linear(3, 3)], epochs=1, progress="none"))
    assert alone.startswith("1 member trained for 1 epoch (classification)")


ONLY_GUESS = "frequent causes"


@pytest.mark.parametrize(
    ("members", "said"),
    [
        (2, "learned, nor any other member: losses on the training data are 1.09"),
        (1, "member 0 may not have learned: its loss on the training data is 1.09"),
    ],
)
def test_members_that_all_guess_are_told_beside_the_progress(members, said, capsys):
    fitted([Dead] * members, progress="lines", validation=0.2)
    shown = capsys.readouterr().err
    assert said in shown
    assert "guessing without looking at the inputs gives 1.0" in shown
    fitted([Dead] * members, progress="none")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "options",
    [
        {"epochs": 1},  # its mean is that of the first weights
        {"epochs": 8, "stop_after": 4},  # it goes on
        {"sample_weights": torch.ones(60)},
        {"loss": CrossEntropy(class_weights=(1.0, 1.0, 1.0))},
    ],
)
def test_of_runs_that_do_not_tell_nothing_is_said(options, tmp_path, capsys):
    fitted([Dead] * 2, progress="lines", out=tmp_path / "run", **options)
    assert ONLY_GUESS not in capsys.readouterr().err


def test_one_member_that_learns_is_enough(capsys):
    with pytest.warns(UserWarning, match="member 1 may not have learned"):
        fitted([lambda: nn.Linear(3, 3), Dead], progress="lines")
    assert ONLY_GUESS not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("loss", "targets", "expected"),
    [
        (
            CrossEntropy(),
            torch.tensor([0, 0, 0, 1]),
            -0.75 * math.log(0.75) - 0.25 * math.log(0.25),
        ),
        (
            CrossEntropy(0.2),
            torch.tensor([0, 0, 0, 1]),
            -0.7 * math.log(0.7) - 0.3 * math.log(0.3),
        ),
        (BinaryCrossEntropy(), torch.tensor([[1, 0], [0, 0]]), math.log(2) / 2),
        (MSE(), torch.tensor([1.0, 3.0]), 1.0),
        (GaussianNLL(), torch.tensor([1.0, 3.0]), 1.0),
        (Quantiles((0.5,)), torch.tensor([0.0, 1.0, 2.0]), 1 / 3),
    ],
)
def test_guessing_knows_the_targets_and_no_input(loss, targets, expected):
    found = tasks.task_of(loss).beside_guessing([0.5], targets, 2, loss)
    assert found.guessing == pytest.approx(expected)


def test_a_likelihood_is_compared_as_the_variance_it_stands_for():
    noise = torch.randn(100000, generator=torch.Generator().manual_seed(0)).double()
    outputs = torch.tensor([0.0, math.log(4.0)]).double().expand(len(noise), 2)
    loss = float(GaussianNLL()(outputs, 2 * noise).mean())
    found = tasks.Gaussians().beside_guessing([loss], 2 * noise, 2, GaussianNLL())
    assert found.members[0] == pytest.approx(4.0, rel=0.02)
    assert found.guessing == pytest.approx(4.0, rel=0.02)


def test_of_a_loss_that_names_no_task_nothing_is_said():
    def own(outputs, targets):
        return outputs[:, 0] - outputs[:, 0] + 1.0

    assert tasks.task_of(own).beside_guessing([1.0], LABELS, 3, own) is None


def test_a_run_with_unlabeled_data_says_what_answers_tell():
    run = fitted([lambda: nn.Linear(3, 3)] * 2, method=A2D(weight=0.01), unlabeled=DATA)
    said = run.summary["answers"]
    expected = information(run.ensemble.logits(DATA.inputs))
    assert said["unlabeled"] == pytest.approx(expected)
    assert said["labeled"] == said["unlabeled"]
    assert min(expected) > 0.5


def test_members_that_answer_alike_everywhere_are_named():
    same = Arrays(torch.zeros(20, 3), torch.zeros(20).long())
    with pytest.warns(UserWarning, match=r"members \[0, 1\] say nothing about the unl"):
        fitted([lambda: nn.Linear(3, 3)] * 2, method=A2D(weight=0.01), unlabeled=same)


def test_information_is_that_of_its_definition():
    logits = torch.randn(2, 7, 3, dtype=torch.float64)
    probs = logits.softmax(-1)
    expected = []
    for member in probs:
        mean = member.mean(0)
        joint = (member * (member / mean).log()).sum(-1).mean()
        expected.append(float(joint) / math.log(3))
    assert information(logits) == pytest.approx(expected)
    assert silent_members(information(logits), information(logits)) == []


def test_a_loss_gives_the_ensemble_its_task_and_another_keeps_it():
    run = fitted([lambda: nn.Linear(3, 3)] * 2)
    assert run.ensemble.task == tasks.Classes()
    numbers = Arrays(X, X.sum(1))
    run = fitted(
        [lambda: nn.Linear(4, 1)] * 2, numbers, loss=MSE(), optimizer=tepui.SGD(lr=0.01)
    )
    assert run.ensemble.task == tasks.Numbers()

    def own(outputs, targets):
        return (outputs[:, 0] - targets).abs()

    again = tepui.fit(
        run.ensemble,
        numbers,
        method=DeepEnsemble(),
        epochs=1,
        loss=own,
        progress="none",
        optimizer=tepui.SGD(lr=0.01),
    )
    assert again.ensemble.task == tasks.Numbers()
    fresh = fitted(
        [lambda: nn.Linear(4, 1)] * 2, numbers, loss=own, optimizer=tepui.SGD(lr=0.01)
    )
    assert fresh.ensemble.task == tasks.Unknown()


def test_a_task_travels_with_heads_and_through_the_run_folder(tmp_path):
    body = nn.Linear(4, 6)
    ensemble = tepui.Ensemble.on_features(body, lambda: nn.Linear(6, 1), members=2)
    features = Arrays(body(X).detach(), X.sum(1))
    how = {"method": DeepEnsemble(), "epochs": 1, "loss": MSE(), "progress": "none"}
    how["optimizer"] = tepui.SGD(lr=0.01)
    tepui.fit(ensemble.heads, features, out=tmp_path, **how)
    assert ensemble.task == tasks.Numbers()
    assert ensemble.predict(X).mean.shape == (60, 1)
    loaded = tepui.load(tmp_path, factory=lambda: nn.Linear(6, 1))
    assert loaded.task == tasks.Numbers()
    assert loaded.preparation is not None


@pytest.mark.parametrize(
    "loss", [MSE(), GaussianNLL(), Quantiles(), BinaryCrossEntropy()]
)
def test_shapes_that_do_not_fit_are_refused_before_training(loss):
    with pytest.raises(ValueError, match=r"(outputs|targets) must"):
        fitted([lambda: nn.Linear(4, 5)], Arrays(X, X.sum(1)), loss=loss)


def test_methods_that_compare_classes_refuse_numbers():
    with pytest.raises(ValueError, match=r"loss must be one of classes.*for A2D"):
        fitted(
            [lambda: nn.Linear(4, 1)] * 2,
            Arrays(X, X.sum(1)),
            loss=MSE(),
            method=A2D(),
            unlabeled=Arrays(X, X.sum(1)),
        )
