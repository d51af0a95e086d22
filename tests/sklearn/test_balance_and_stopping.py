"""Words that scikit-learn's own estimators know: class weights and an early end."""

import numpy as np
import pytest

import tepui
from tepui.sklearn import EnsembleClassifier, EnsembleRegressor

SHORT = {"members": 2, "epochs": 20, "hidden": (8,), "random_state": 0}


@pytest.fixture(scope="module")
def rare():
    """Two overlapping classes, one of them rare."""
    draw = np.random.default_rng(0)
    y = np.array(["often"] * 180 + ["rare"] * 20)
    return draw.normal(size=(200, 2)) + (y == "rare")[:, None], y


def test_balanced_classes_count_the_same_in_sum(rare):
    X, y = rare
    plain = EnsembleClassifier(**SHORT).fit(X, y)
    balanced = EnsembleClassifier(**SHORT, class_weight="balanced").fit(X, y)
    told = {"often": 200 / (2 * 180), "rare": 200 / (2 * 20)}
    named = EnsembleClassifier(**SHORT, class_weight=told).fit(X, y)
    assert np.array_equal(balanced.predict_proba(X), named.predict_proba(X))
    found = [(model.predict(X) == "rare").mean() for model in (plain, balanced)]
    assert found[0] < 0.1 < found[1]


def test_weights_of_classes_and_of_samples_multiply(rare):
    X, y = rare
    weights = np.where(np.arange(200) % 2, 1.0, 3.0)
    both = EnsembleClassifier(**SHORT, class_weight={"rare": 4.0})
    first = both.fit(X, y, weights).predict_proba(X)
    # Tripled weights of all samples are the same weights.
    again = both.set_params(class_weight={"rare": 12.0, "often": 3.0})
    np.testing.assert_allclose(again.fit(X, y, weights).predict_proba(X), first)


@pytest.mark.parametrize(
    ("weight", "said"),
    [
        ("balance", 'class_weight must be "balanced", or numbers by class'),
        ({"other": 2.0}, r"class_weight must name classes of y .* got \['other'\]"),
    ],
)
def test_weights_of_unknown_classes_are_refused(rare, weight, said):
    with pytest.raises(ValueError, match=said):
        EnsembleClassifier(**SHORT, class_weight=weight).fit(*rare)


def test_validation_counts_classes_as_training_does(rare):
    X, y = rare
    how = {**SHORT, "early_stopping": True}
    named = EnsembleClassifier(**how, class_weight="balanced").fit(X, y)
    weights = (200 / (2 * 180), 200 / (2 * 20))
    loss = tepui.losses.CrossEntropy(class_weights=weights)
    told = EnsembleClassifier(**how, loss=loss).fit(X, y)
    first, second = (each.history_[0].validation_loss for each in (named, told))
    assert first == pytest.approx(second)
    with pytest.raises(ValueError, match="class_weight must be None beside a loss"):
        EnsembleClassifier(**how, loss=loss, class_weight="balanced").fit(X, y)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [EnsembleClassifier, EnsembleRegressor])
def test_a_run_without_gain_ends_early(rare, kind):
    X, _ = rare
    noise = np.random.default_rng(1).integers(0, 2, len(X)).astype(float)
    long = {**SHORT, "epochs": 200, "optimizer": None}
    patient = kind(**long, early_stopping=True).fit(X, noise)
    told = tepui.EarlyStopping(patience=2)
    stopped = kind(**long, early_stopping=told).fit(X, noise)
    assert len(stopped.history_) < len(patient.history_)
    assert len(stopped.history_) < 200
    losses = [np.mean(record.validation_loss) for record in stopped.history_]
    assert np.argmin(losses) == len(losses) - 3
    with pytest.raises(ValueError, match="early_stopping must be True or False or of"):
        kind(**SHORT, early_stopping=3).fit(X, noise)
    with pytest.raises(ValueError, match="validation_fraction must lie in"):
        kind(**SHORT, early_stopping=True, validation_fraction=1.0).fit(X, noise)
