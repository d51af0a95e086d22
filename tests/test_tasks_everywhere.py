"""Nothing takes numbers for logits: public functions meet a regression ensemble."""

import importlib
import inspect
import pkgutil
import sys
import warnings
from unittest.mock import patch

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import tepui
from tepui import evaluation, hub, sharpness, tasks
from tepui.data import Arrays
from tepui.export import export_ensemble
from tepui.losses import MSE
from tepui.methods import A2D, SAM, SED, DeepEnsemble, DivDis, SharpBalance

X = torch.randn(48, 4, generator=torch.Generator().manual_seed(0))
DATA = Arrays(X, X @ torch.tensor([1.0, -2.0, 0.5, 0.0]))
SOFTMAXES = [
    *((Tensor, name) for name in ("softmax", "log_softmax", "logsumexp")),
    *((torch, name) for name in ("softmax", "log_softmax", "logsumexp")),
    *((F, name) for name in ("softmax", "log_softmax", "cross_entropy")),
]


@pytest.fixture
def no_softmax(monkeypatch):
    """Let every softmax of the process fail."""

    def refuse(*arguments, **options):
        raise AssertionError("a softmax of numbers")

    for owner, name in SOFTMAXES:
        monkeypatch.setattr(owner, name, refuse)


def regression(members=3):
    ensemble = tepui.Ensemble.build(lambda: nn.Linear(4, 1), members, seed=0)
    ensemble.task = tasks.Numbers()
    return ensemble


def fit(ensemble, path):
    how = {"loss": MSE(), "epochs": 2, "progress": "none", "validation": 0.25}
    how["optimizer"] = tepui.SGD(lr=0.01)
    for method in (DeepEnsemble(), SAM(), SharpBalance(switch_at=0.5)):
        tepui.fit(ensemble, DATA, method=method, **how)
    for method in (A2D(), DivDis(), SED(active=2)):
        unlabeled = {"unlabeled": DATA} if method.needs_unlabeled else {}
        with pytest.raises(ValueError, match="be one of classes"):
            tepui.fit(ensemble, DATA, method=method, **how, **unlabeled)


def train(ensemble, path):
    spec = tepui.training.TrainingSpec(method=SAM(), epochs=1, loss=MSE())
    tepui.training.train(ensemble, DATA, spec)


def distil(ensemble, path):
    how = {"epochs": 1, "progress": "none", "optimizer": tepui.SGD(lr=0.01)}
    tepui.distil(ensemble, DATA, lambda: nn.Linear(4, 1), **how)


def evaluate(ensemble, path):
    shifted, ood = {("same", 1): DATA}, {"far": Arrays(9 * X, DATA.targets)}
    found = tepui.evaluate(ensemble, DATA, shifted=shifted, ood=ood, out=path)
    found.document()
    str(found)
    tepui.read_logits(path)


def measure(ensemble, path):
    assert set(tepui.measure(ensemble, DATA)) == {"worst_case", "fisher_rao"}
    every = {
        name: getattr(sharpness, name)
        for name in ("average_case", "hessian_trace", "sam_sharpness", "worst_case")
    }
    tepui.measure(ensemble, DATA, every)
    with pytest.raises(ValueError, match="loss must be cross-entropy"):
        tepui.measure(ensemble, DATA, sharpness.relative_flatness)


def write_predictions(ensemble, path):
    evaluation.write_predictions(ensemble, DATA, path / "out.csv")


def prediction_cost(ensemble, path):
    found = evaluation.prediction_cost(ensemble, DATA)
    assert found.parameters == sum(p.numel() for p in ensemble.parameters())


def exported(ensemble, path):
    done = export_ensemble(ensemble, DATA, path / "numbers.pt2", to="torch")
    assert set(done.differences) == {"mean", "std", "epistemic_variance"}


def refused(function):
    def walk(ensemble, path):
        with pytest.raises(ValueError, match="ensemble must choose between classes"):
            function(ensemble, DATA)

    return walk


def detectors(ensemble, path):
    found = evaluation.FeatureDetectors.fit(ensemble, DATA)
    near, far = (found.scores((), s * X)["distance"] for s in (1, 9))
    assert far.mean() > near.mean()


def uniform_soup(ensemble, path):
    assert tepui.uniform_soup(ensemble).task == tasks.Numbers()


def card(ensemble, path):
    found = tepui.evaluate(ensemble, DATA)
    assert "rmse" in hub.model_card(ensemble, found, data="numbers").lower()


def save_pretrained(ensemble, path):
    found = tepui.evaluate(ensemble, DATA)
    hub.save_pretrained(ensemble, path / "saved", evaluation=found, data="numbers")


def push_to_hub(ensemble, path):
    """Nothing is sent: the library that would do it is refused to be there."""
    with (
        patch.dict(sys.modules, {"huggingface_hub": None}),
        pytest.raises(ImportError, match="huggingface_hub is not installed"),
    ):
        hub.push_to_hub(ensemble, "someone/numbers")


WALKS = {
    "FeatureDetectors": detectors,
    "aggregations": refused(tepui.aggregations),
    "distil": distil,
    "evaluate": evaluate,
    "export_ensemble": exported,
    "fit": fit,
    "greedy_soup": refused(tepui.greedy_soup),
    "measure": measure,
    "model_card": card,
    "write_predictions": write_predictions,
    "prediction_cost": prediction_cost,
    "push_to_hub": push_to_hub,
    "save_pretrained": save_pretrained,
    "train": train,
    "uniform_soup": uniform_soup,
}


def takes_an_ensemble(function):
    annotations = [
        str(parameter.annotation)
        for parameter in inspect.signature(function).parameters.values()
    ]
    return any("Ensemble" in annotation for annotation in annotations)


def functions_of(item):
    """A function itself, or what a class makes its instances of."""
    if inspect.isfunction(item):
        return [item]
    if not inspect.isclass(item):
        return []
    return [m.__func__ for m in vars(item).values() if isinstance(m, classmethod)]


def public_functions():
    """The names of public functions, and of classes made of an ensemble."""
    packages = [tepui] + [
        importlib.import_module(f"tepui.{item.name}")
        for item in pkgutil.iter_modules(tepui.__path__)
        if item.ispkg
    ]
    return {
        name
        for package in packages
        for name in getattr(package, "__all__", ())
        if any(map(takes_an_ensemble, functions_of(getattr(package, name))))
    }


def test_every_public_function_of_an_ensemble_is_walked():
    assert public_functions() == WALKS.keys()


@pytest.mark.parametrize("name", WALKS)
def test_numbers_are_never_taken_for_logits(name, no_softmax, tmp_path):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "member .* may not have learned")
        WALKS[name](regression(), tmp_path)


def test_what_an_ensemble_itself_does_takes_no_softmax(no_softmax, tmp_path):
    ensemble = regression()
    out = ensemble.predict(X)
    for field in ("mean", "std", "epistemic"):
        assert getattr(out, field).shape == (48, 1)
    str(out)
    with pytest.raises(ValueError, match="task must be one of classes"):
        ensemble.calibrate(DATA)
    ensemble.conformal(DATA, coverage=0.8)
    ensemble.save(tmp_path)
    loaded = tepui.load(tmp_path, factory=lambda: nn.Linear(4, 1))
    assert torch.equal(loaded.predict(X).mean, out.mean)


def test_the_guard_bites(no_softmax):
    ensemble = tepui.Ensemble.build(lambda: nn.Linear(4, 3), members=2)
    with pytest.raises(AssertionError, match="a softmax of numbers"):
        ensemble.predict(X).probs  # noqa: B018 - to ask is to compute
