"""What decides between the combinations of a search, for every task."""

import pytest

from tepui.losses import MSE, BinaryCrossEntropy, CrossEntropy, GaussianNLL, Quantiles
from tepui.studies.sweep import criterion_of

CLASSES = {"accuracy": (0.5, 0.7), "individual_accuracy": (0.5, 0.5)}
NUMBERS = {"individual_rmse": (1.0, 1.0)}


@pytest.mark.parametrize("loss", [CrossEntropy(), BinaryCrossEntropy()])
def test_of_classes_the_highest_accuracy_then_the_lowest_likelihood(loss):
    merit = criterion_of(loss).merit
    plain = merit({**CLASSES, "nll": (1.0, 2.0)})
    assert plain == (pytest.approx(0.6), pytest.approx(-1.5))
    assert merit({**CLASSES, "accuracy": (0.7, 0.7), "nll": (9.0, 9.0)}) > plain
    assert merit({**CLASSES, "nll": (1.0, 1.5)}) > plain
    assert merit({**CLASSES, "nll": (1.0, None)}) < plain


@pytest.mark.parametrize(
    ("loss", "first", "then"),
    [
        (MSE(), "rmse", "crps"),
        (GaussianNLL(), "crps", "rmse"),
        (Quantiles((0.1, 0.9)), "quantile_loss", "rmse"),
    ],
)
def test_of_numbers_the_lowest_error(loss, first, then):
    criterion = criterion_of(loss)
    plain = criterion.merit({**NUMBERS, first: (1.0, 3.0), then: (2.0, 2.0)})
    better = {**NUMBERS, first: (1.0, 2.0), then: (9.0, 9.0)}
    as_good = {**NUMBERS, first: (2.0, 2.0), then: (2.0, 1.0)}
    assert criterion.merit(better) > plain
    assert criterion.merit(as_good) > plain
    assert criterion.merit({**better, first: (1.0, None)}) < plain
    assert str(criterion).startswith(f"lowest mean {first} on the held-out samples")
    assert {first, then} < {*criterion.shown}


def test_a_loss_must_say_what_outputs_mean():
    with pytest.raises(ValueError, match="loss must say what outputs mean"):
        criterion_of(lambda outputs, targets: (outputs - targets).abs())
