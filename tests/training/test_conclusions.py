"""What a run says of its members when it has ended."""

import warnings

import torch
from torch import nn

import tepui
from tepui import tasks
from tepui.data import Arrays
from tepui.losses import MSE
from tepui.methods import DeepEnsemble

LABELS = torch.arange(60) % 3
DATA = Arrays(5 * torch.eye(3)[LABELS], LABELS)
X = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))


def fitted(factories, data=DATA, **options):
    ensemble = tepui.Ensemble.build(factories, seed=0)
    how = {"method": DeepEnsemble(), "epochs": 8, "progress": "none", **options}
    return tepui.fit(ensemble, data, **how)


def test_members_that_return_probabilities_are_told_once():
    def probabilities():
        return nn.Sequential(nn.Linear(3, 3), nn.Softmax(1))

    with warnings.catch_warnings(record=True) as log:
        warnings.simplefilter("always")
        fitted([probabilities] * 2)
    said = [str(each.message) for each in log]
    assert sum("members seem to return probabilities" in text for text in said) == 1


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
