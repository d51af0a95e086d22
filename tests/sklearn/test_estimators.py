"""Classifier and regressor: weights, seeds, units, sets, methods, files."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_iris,
    load_wine,
)
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    StratifiedKFold,
    cross_val_score,
    train_test_split,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from torch import nn

import tepui
from tepui.losses import CrossEntropy, GaussianNLL, Quantiles
from tepui.methods import SAM, SED, DeepEnsemble, SharpBalance
from tepui.sklearn import EnsembleClassifier, EnsembleRegressor

SHORT = {"members": 2, "epochs": 20, "hidden": (16,), "random_state": 0}


@pytest.fixture(scope="module")
def irises():
    X, numbers = load_iris(return_X_y=True)
    y = np.array(["setosa", "versicolor", "virginica"])[numbers]
    return train_test_split(X, y, test_size=0.4, random_state=0)


@pytest.fixture(scope="module")
def patients():
    X, y = load_diabetes(return_X_y=True)
    return train_test_split(X, y, test_size=0.4, random_state=0)


@pytest.fixture(scope="module")
def classifier(irises):
    return EnsembleClassifier(**SHORT, batch_size=8).fit(irises[0], irises[2])


@pytest.mark.slow
@pytest.mark.parametrize(
    "load", [load_breast_cancer, load_wine, load_digits, load_iris]
)
def test_defaults_do_not_lose_to_a_logistic_regression(load):
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    linear = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    ours, theirs = (
        cross_val_score(model, *load(return_X_y=True), cv=folds, scoring="neg_log_loss")
        for model in (EnsembleClassifier(random_state=0), linear)
    )
    assert ours.mean() > theirs.mean() - 0.01


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"hidden": 5}, r"hidden must be a sequence \(each an integer\), got 5"),
        ({"batch_size": "x"}, "batch_size must be an integer, got 'x'"),
    ],
)
@pytest.mark.parametrize("kind", [EnsembleClassifier, EnsembleRegressor])
def test_settings_of_other_types_are_refused(patients, kind, given, said):
    with pytest.raises(ValueError, match=said):
        kind(**given).fit(patients[0], patients[2] > 100)


def own_network(features, outputs):
    return nn.Sequential(nn.Linear(features, 8), nn.Tanh(), nn.Linear(8, outputs))


def drawn_weights(samples):
    return np.random.default_rng(0).integers(0, 4, samples)


@pytest.mark.parametrize("method", [None, SAM(rho=0.1)], ids=["default", "SAM"])
def test_weights_of_classes_are_repetitions(irises, method):
    X, test, y, _ = irises
    X, y = X[::2], y[::2]
    weights = drawn_weights(len(y))
    made = EnsembleClassifier(**SHORT, method=method)
    weighted = clone(made).fit(X, y, sample_weight=weights)
    repeated = clone(made).fit(X.repeat(weights, 0), y.repeat(weights))
    expected = repeated.predict_proba(test)
    np.testing.assert_allclose(weighted.predict_proba(test), expected, rtol=1e-7)
    plain = clone(made).fit(X, y).predict_proba(test)
    assert np.abs(plain - expected).max() > 1e-3


@pytest.mark.parametrize("loss", [None, GaussianNLL(), Quantiles()])
def test_weights_of_numbers_are_repetitions(patients, loss):
    X, test, y, _ = patients
    X, y = X[:40], y[:40]
    weights = drawn_weights(len(y))
    made = EnsembleRegressor(**SHORT, loss=loss)
    weighted = clone(made).fit(X, y, sample_weight=weights)
    repeated = clone(made).fit(X.repeat(weights, 0), y.repeat(weights))
    expected = repeated.predict(test)
    np.testing.assert_allclose(weighted.predict(test), expected, rtol=1e-7)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([-1.0], r"sample_weight must be non-negative, got -1.0"),
        ([0.0], r"sample_weight must be positive for at least one sample, got 'zeros'"),
    ],
)
def test_weights_that_say_nothing_are_refused(irises, weights, message):
    X, _, y, _ = irises
    with pytest.raises(ValueError, match=message):
        EnsembleClassifier(**SHORT).fit(X, y, np.resize(weights, len(y)))


def test_features_are_standardized_inside(irises):
    X, test, y, _ = irises
    factors, offsets = np.array([1e3, 1e-3, 2, 5]), np.array([7, 0, -3, 1e2])
    made = EnsembleClassifier(**SHORT)
    plain = clone(made).fit(X, y).predict_proba(test)
    moved = clone(made).fit(X * factors + offsets, y)
    np.testing.assert_allclose(moved.predict_proba(test * factors + offsets), plain)


def test_predictions_are_in_the_units_of_the_targets(patients):
    X, test, y, _ = patients
    made = EnsembleRegressor(**SHORT, loss=GaussianNLL())
    mean, std = clone(made).fit(X, y).predict(test, return_std=True)
    moved = clone(made).fit(X, 1000 * y - 5).predict(test, return_std=True)
    np.testing.assert_allclose(moved[0], 1000 * mean - 5, rtol=1e-6)
    np.testing.assert_allclose(moved[1], 1000 * std, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    [DeepEnsemble(), SAM(), SharpBalance(), SED(active=2)],
    ids=lambda m: str(m)[:4],
)
def test_every_kind_of_method_trains(irises, method):
    X, test, y, expected = irises
    made = EnsembleClassifier(**SHORT, batch_size=8, method=method).fit(X, y)
    assert made.score(test, expected) > 0.8


def test_sets_hold_the_class_as_often_as_told(irises):
    X, test, y, expected = irises
    made = EnsembleClassifier(**SHORT).fit(X, y)
    with pytest.raises(ValueError, match=r"estimator must be given held-out data"):
        made.predict_set(test)
    made.calibrate(test[:20], expected[:20]).conformal(test[20:], expected[20:], 0.8)
    sets = made.predict_set(test[20:])
    column = np.searchsorted(made.classes_, expected[20:])
    # On the very samples that made them, at least ceil((n + 1) * 0.8) of n hold it.
    assert sets[np.arange(len(column)), column].mean() >= 0.8
    with pytest.raises(ValueError, match=r"y must hold classes that fit has seen"):
        made.conformal(test, np.full(len(test), "tulip"))


@pytest.mark.parametrize("loss", [None, GaussianNLL(), Quantiles()])
def test_intervals_hold_the_number_as_often_as_told(patients, loss):
    X, test, y, expected = patients
    made = EnsembleRegressor(**SHORT, loss=loss).fit(X, y)
    with pytest.raises(ValueError, match=r"coverage must be given, or held-out data"):
        made.predict_interval(test)
    lower, upper = made.conformal(test, expected, 0.8).predict_interval(test)
    held = ((lower <= expected) & (expected <= upper)).mean()
    assert 0.8 <= held < 0.9


def test_what_a_loss_does_not_teach_is_refused(patients):
    X, test, y, _ = patients
    squared = EnsembleRegressor(**SHORT).fit(X, y)
    with pytest.raises(ValueError, match=r"coverage must be None for MSE"):
        squared.predict_interval(test, 0.9)
    quantiles = EnsembleRegressor(**SHORT, loss=Quantiles()).fit(X, y)
    with pytest.raises(ValueError, match=r"return_std must be False for quantiles"):
        quantiles.predict(test, return_std=True)


def test_a_loss_of_another_task_is_refused(irises, patients):
    with pytest.raises(ValueError, match=r"loss must be of classes.*regression"):
        EnsembleClassifier(**SHORT, loss=tepui.losses.MSE()).fit(*irises[::2])
    with pytest.raises(ValueError, match=r"loss must be of numbers.*classification"):
        EnsembleRegressor(**SHORT, loss=CrossEntropy()).fit(*patients[::2])


def test_networks_disagree_on_far_samples(patients):
    model = EnsembleRegressor(**SHORT).fit(*patients[::2])
    far = model.ood_score(patients[1] * 10).mean()
    assert far > 2 * model.ood_score(patients[1]).mean()


@pytest.mark.slow
def test_a_grid_over_methods_finds_one(irises):
    X, test, y, expected = irises
    methods = [DeepEnsemble(), SAM(rho=0.05), SAM(rho=100.0)]
    last = EnsembleClassifier(**SHORT, batch_size=8)
    pipe = make_pipeline(PolynomialFeatures(2), last)
    grid = GridSearchCV(pipe, {"ensembleclassifier__method": methods}, cv=2)
    grid.fit(X, y)
    assert grid.best_params_["ensembleclassifier__method"] in methods[:2]
    assert grid.cv_results_["mean_test_score"][2] < grid.best_score_
    assert grid.score(test, expected) > 0.8


@pytest.mark.parametrize("kept", [None, own_network], ids=["MLP", "own"])
def test_a_saved_classifier_answers_as_before(irises, tmp_path, kept):
    X, test, y, expected = irises
    method = SharpBalance(rho=0.1, base=SAM(rho=0.1))
    made = EnsembleClassifier(**SHORT, method=method, model=kept).fit(X, y)
    made.conformal(test, expected, 0.8)
    assert made.save(tmp_path / "saved") == tmp_path / "saved"
    own = {} if kept is None else {"model": kept}
    loaded = EnsembleClassifier.load(tmp_path / "saved", **own)
    for method in ("predict", "predict_proba", "predict_set", "ood_score"):
        answers = [getattr(model, method)(test) for model in (made, loaded)]
        assert np.array_equal(*answers)
    assert loaded.get_params() == made.get_params()
    assert loaded.n_features_in_ == 4
    assert np.array_equal(clone(loaded).fit(X, y).predict(test), made.predict(test))


@pytest.mark.parametrize("loss", [None, GaussianNLL(), Quantiles((0.1, 0.5, 0.9))])
@pytest.mark.parametrize("numbers", [1, 2])
def test_a_saved_regressor_answers_as_before(patients, tmp_path, loss, numbers):
    X, test, y, _ = patients
    targets = y if numbers == 1 else np.stack([y, y**2], 1)
    made = EnsembleRegressor(**SHORT, loss=loss).fit(X, targets)
    made.save(tmp_path)
    loaded = EnsembleRegressor.load(tmp_path)
    assert loaded.loss == loss
    assert np.array_equal(loaded.predict(test), made.predict(test))
    assert loaded.predict(test).shape == (len(test),) + (() if numbers == 1 else (2,))


@pytest.mark.parametrize(
    "names",
    [
        np.array([3, 7, 5], np.int16),
        np.array([False, True, True]),
        np.array([1.0, 2.0, 3.0]),
        np.array(["a", "bc", "d"]),
        np.array(["a", "bc", "d"], object),
    ],
    ids=lambda names: str(names.dtype),
)
def test_names_of_classes_come_back(irises, tmp_path, names):
    X, _, y, _ = irises
    numbers = np.unique(y, return_inverse=True)[1]
    made = EnsembleClassifier(**SHORT).fit(X, names[numbers])
    made.save(tmp_path)
    loaded = EnsembleClassifier.load(tmp_path)
    assert loaded.classes_.dtype == made.classes_.dtype
    assert loaded.classes_.tolist() == made.classes_.tolist()


def test_what_cannot_be_loaded_is_named(classifier, irises, tmp_path):
    with pytest.raises(FileNotFoundError, match="no estimator in"):
        EnsembleClassifier.load(tmp_path)
    classifier.save(tmp_path)
    message = r"estimator.json must hold EnsembleRegressor, got 'EnsembleClassifier'"
    with pytest.raises(ValueError, match=message):
        EnsembleRegressor.load(tmp_path)
    own = EnsembleClassifier(**SHORT, model=own_network).fit(*irises[::2])
    own.save(tmp_path, overwrite=True)
    with pytest.raises(ValueError, match=r"model must be given: .* code of your own"):
        EnsembleClassifier.load(tmp_path)
    own.ensemble_.save(tmp_path, overwrite=True)
    classifier.ensemble_.save(tmp_path, overwrite=True)
    with pytest.raises(ValueError, match="must describe the ensemble beside it"):
        EnsembleClassifier.load(tmp_path, model=own_network)


def rewritten(folder, change):
    """Change a document and seal it again, as someone who means harm would."""
    from tepui.core.storage import read_document, write_document

    document = read_document(folder / "estimator.json", "estimator")
    change(document)
    write_document(folder / "estimator.json", "estimator", document)


def name_another_class(document):
    document["parameters"]["method"] = "os.system"


def name_another_attribute(document):
    document["learned"]["predict"] = {"values": [1], "type": "<f8"}


def hold_objects(document):
    document["learned"]["classes_"] = {"values": [[1], {}], "type": "|O"}


@pytest.mark.parametrize(
    "change", [name_another_class, name_another_attribute, hold_objects]
)
def test_a_folder_runs_nothing(classifier, tmp_path, change):
    classifier.save(tmp_path)
    rewritten(tmp_path, change)
    with pytest.raises(ValueError, match=r"estimator.json must be"):
        EnsembleClassifier.load(tmp_path)
