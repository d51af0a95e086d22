"""Rows unlike those of fit are found, and rows like them hardly ever called so."""

import pickle

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes

from tepui.ensembles.feature_detectors import DETECTORS
from tepui.losses import GaussianNLL
from tepui.sklearn import EnsembleClassifier, EnsembleRegressor

SHORT = {"members": 2, "epochs": 10, "hidden": (16,), "random_state": 0}


def cancers():
    X, y = load_breast_cancer(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    return X[order], y[order]


def patients():
    X, y = load_diabetes(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    return X[order], y[order]


@pytest.fixture(scope="module")
def classifier():
    X, y = cancers()
    model = EnsembleClassifier(**SHORT).fit(X[:250], y[:250])
    return model.conformal(X[250:400], y[250:400])


@pytest.fixture(scope="module")
def regressor():
    X, y = patients()
    model = EnsembleRegressor(**SHORT, loss=GaussianNLL()).fit(X[:200], y[:200])
    return model.conformal(X[200:330], y[200:330])


MODELS = {"classifier": cancers, "regressor": patients}


@pytest.mark.parametrize("distance", [10, 100, 1e6])
@pytest.mark.parametrize("name", MODELS)
def test_rows_far_out_are_flagged(name, distance, request):
    """In any one feature, and in any direction of all of them."""
    model, (X, _) = request.getfixturevalue(name), MODELS[name]()
    mean, scale = X.mean(0), X.std(0)
    one = mean + distance * scale * np.eye(X.shape[1])
    directions = np.random.default_rng(1).standard_normal((50, X.shape[1]))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    for far in (one, 2 * mean - one, mean + distance * scale * directions):
        assert model.unfamiliar(far).all()
        assert (model.unfamiliarity(far) > 0.99).all()


@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
@pytest.mark.parametrize("name", MODELS)
def test_rows_like_those_of_fit_are_flagged_as_often_as_told(name, level, request):
    model, (X, _) = request.getfixturevalue(name), MODELS[name]()
    new = X[400:] if name == "classifier" else X[330:]
    share = model.unfamiliar(new, level).mean()
    allowed = 4 * np.sqrt(level * (1 - level) * (1 / len(new) + 1 / 130)) + 1 / 130
    assert abs(share - (1 - level)) < allowed
    held = X[250:400] if name == "classifier" else X[200:330]
    assert model.unfamiliar(held, level).mean() <= 1 - level + 1 / len(held)


def test_networks_are_blind_far_out_where_rows_are_not(classifier):
    X, _ = cancers()
    far = X.mean(0) + 100 * X.std(0) * np.sign(X[400:] - X.mean(0))
    networks = classifier.ensemble_.predicted(classifier._predicted(far).uncalibrated)
    assert networks.unfamiliar().double().mean() < 0.5
    assert classifier.unfamiliar(far).all()


def test_saved_estimators_say_the_same(classifier, regressor, tmp_path):
    for model, (X, _) in ((classifier, cancers()), (regressor, patients())):
        folder = model.save(tmp_path / type(model).__name__)
        copies = (type(model).load(folder), pickle.loads(pickle.dumps(model)))
        for copy in copies:
            found = copy.unfamiliarity(X)
            assert np.array_equal(found, model.unfamiliarity(X))


@pytest.mark.filterwarnings("ignore:temperature")
@pytest.mark.parametrize("given", ["calibrate", "conformal"])
def test_held_out_data_are_asked_for_and_a_new_fit_forgets_them(given, tmp_path):
    X, y = cancers()
    model = EnsembleClassifier(**SHORT).fit(X[:100], y[:100])
    with pytest.raises(ValueError, match=r"held-out data first, by conformal\(X, y\)"):
        model.unfamiliar(X)
    model.save(tmp_path)
    with pytest.raises(ValueError, match="held-out data first"):
        EnsembleClassifier.load(tmp_path).unfamiliar(X)
    getattr(model, given)(X[100:200], y[100:200])
    assert model.unfamiliar(X[:5]).dtype == bool
    with pytest.raises(ValueError, match=r"level must lie in \(0, 1\]"):
        model.unfamiliar(X, level=0)
    model.fit(X[:100], y[:100])
    with pytest.raises(ValueError, match="held-out data first"):
        model.unfamiliar(X)


def test_folders_without_detectors_are_read_and_foreign_ones_left_out(
    classifier, tmp_path
):
    X, _ = cancers()
    classifier.save(tmp_path)
    file = tmp_path / DETECTORS
    other = EnsembleClassifier(**SHORT).fit(X, cancers()[1]).save(tmp_path / "other")
    file.write_bytes((other / DETECTORS).read_bytes())
    with pytest.warns(UserWarning, match="it was fitted for other weights"):
        EnsembleClassifier.load(tmp_path)
    file.unlink()
    loaded = EnsembleClassifier.load(tmp_path)
    assert np.array_equal(loaded.predict(X), classifier.predict(X))
    with pytest.raises(ValueError, match="held-out data first"):
        loaded.unfamiliar(X)
