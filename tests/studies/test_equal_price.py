"""Equal price: no method costs more than the costliest, and none could train longer."""

from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from tepui.data import Digits
from tepui.methods import (
    SAM,
    SED,
    DeepEnsemble,
    SharpBalance,
    SnapshotEnsemble,
)
from tepui.models import MLP
from tepui.studies import compare
from tepui.studies.equal_price import (
    at_equal_price,
    for_price,
    passes,
    says_its_price,
    stretched,
)
from tepui.training import TrainingSpec
from tepui.training.optimizer import Cosine, MultiStep

METHODS = [DeepEnsemble(), SAM(), SharpBalance(), SED(), SnapshotEnsemble()]


def spec(method, epochs, **more):
    return TrainingSpec(method=method, epochs=epochs, **more)


@settings(deadline=None, max_examples=40)
@given(some.sampled_from(METHODS), some.integers(5, 40), some.floats(0.4, 4))
def test_one_epoch_more_would_cost_too_much(method, epochs, factor):
    plain = spec(method, epochs)
    most = factor * passes(plain, 3)
    found = for_price(plain, 3, most)
    assert passes(found, 3) <= most * (1 + 1e-9)
    longer = replace(found, epochs=found.epochs + 1)
    assert passes(longer, 3) > most


@given(some.integers(1, 30))
def test_plain_gradient_descent_has_twice_the_epochs_of_sam(epochs):
    plain, sam = (spec(method, epochs) for method in (DeepEnsemble(), SAM()))
    assert for_price(plain, 4, passes(sam, 4)).epochs == 2 * epochs
    assert for_price(sam, 4, passes(sam, 4)) is sam


def test_what_the_schedule_names_in_epochs_goes_with_it():
    schedule = MultiStep(milestones=(3, 0.75), warmup=1.5)
    found = stretched(spec(SAM(), 6, schedule=schedule, part_at=2), 18)
    assert (found.epochs, found.part_at) == (18, 6)
    assert found.schedule == MultiStep(milestones=(9, 0.75), warmup=4.5)
    cosine = stretched(spec(SAM(), 6, schedule=Cosine()), 7).schedule
    assert cosine == Cosine()


@pytest.mark.parametrize("equal", ["gradients", "seconds"])
def test_the_price_is_kept_by_whoever_goes_on(tmp_path, equal):
    plain = {"plain": spec(DeepEnsemble(), 6), "sam": spec(SAM(), 6)}
    took = iter([0.5, 1.0, 2.0])
    how = 2, equal, tmp_path, lambda _: next(took)
    first = at_equal_price(plain, *how)
    longer = 12 if equal == "gradients" else 24
    assert [each.epochs for each in first.values()] == [longer, 6]
    more = {**plain, "dear": spec(SharpBalance(before="sam"), 6)}
    again = at_equal_price(more, *how)
    assert {name: again[name] for name in plain} == first
    with pytest.raises(ValueError, match=r"epochs must be what .* \(6\), got 7"):
        at_equal_price({"sam": spec(SAM(), 7)}, *how)


def test_a_method_of_ones_own_says_its_price_or_is_told_so():
    @dataclass(frozen=True, kw_only=True)
    class Mine(DeepEnsemble):
        __module__ = "mine"

    class Dear(Mine):
        __module__ = "mine"

        def relative_cost(self, epoch, epochs):
            return 3.0

    assert [says_its_price(m) for m in (SAM(), Mine(), Dear())] == [True, False, True]


@pytest.mark.parametrize("equal", ["gradients", "seconds", None])
def test_a_comparison_pays_what_its_dry_run_says(tmp_path, equal):
    told = []
    data = Digits().subset(range(64))
    arguments = [DeepEnsemble(), SAM()], lambda: MLP(hidden=(8,)), data, data
    how = {"members": 2, "ensembles": 2, "epochs": 2, "progress": "none"}
    how |= {"out": tmp_path / "run", "announce": told.append, "equal": equal}
    dry = compare(*arguments, dry_run=True, **how)
    assert not (tmp_path / "run").exists()
    told.clear()
    found = compare(*arguments, **how)
    by = {"metric": "passes", "dataset": "training"}
    costs = [found.one(method=m, **by).value for m in ("DeepEnsemble", "SAM")]
    assert costs[1] == 8
    assert costs[0] <= 8 if equal != "seconds" else costs[0] > 0
    if equal != "seconds":
        assert costs[0] == (4 if equal is None else 8)
        priced = [dry.one(method=m, **by).value for m in ("DeepEnsemble", "SAM")]
        assert priced == costs
    assert any(line.startswith("epochs at equal") for line in told) == (
        found.one(method="DeepEnsemble", metric="epochs").value != 2
    )
    known = {"dataset": "training", "metric": "seconds", "method": "SAM"}
    assert not dry.find(**known)
    again = compare(*arguments, dry_run=True, resume=True, **how)
    both = [found.one(method=m, **by).value for m in ("DeepEnsemble", "SAM")]
    spent = [found.one(**{**known, "method": m}).value for m in ("DeepEnsemble", "SAM")]
    pace = sum(spent) / sum(both)
    assert again.one(**known).value == pytest.approx(pace * both[1])
