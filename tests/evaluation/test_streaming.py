"""An evaluation that sees logits go by gives what all of them give, to the bit."""

import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import tepui
from strategies import RULES, modest
from tepui import metrics
from tepui.data import Arrays
from tepui.ensembles.outputs import dataset_logits
from tepui.evaluation.ood import detections
from tepui.metrics import chunks
from tepui.tasks import Scores
from tepui.tasks.classes import ScoreStream

pytestmark = pytest.mark.filterwarnings("ignore:member .* may not have learned")


def data(samples, classes, seed=0):
    stream = torch.Generator().manual_seed(seed)
    inputs = torch.randn(samples, 5, generator=stream)
    return Arrays(inputs, torch.randint(0, classes, (samples,), generator=stream))


def ensemble_of(members, classes):
    return tepui.Ensemble.build(lambda: nn.Linear(5, classes), members, seed=13)


@modest
@given(
    sizes=st.tuples(st.integers(1, 4), st.integers(1, 40), st.integers(2, 6)),
    batch_size=st.integers(1, 50),
    at_once=st.integers(1, 300),
    rule=st.sampled_from(RULES),
)
def test_scores_are_those_of_all_logits_at_once(sizes, batch_size, at_once, rule):
    members, samples, classes = sizes
    ensemble, test = ensemble_of(members, classes), data(samples, classes)
    other = data(samples + 3, classes, seed=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "LOGITS_AT_ONCE", at_once)
        found = tepui.evaluate(
            ensemble,
            test,
            shifted={("far", 1): other},
            ood={"far": other},
            rule=rule,
            batch_size=batch_size,
        )
        whole, far = (dataset_logits(ensemble, d, batch_size) for d in (test, other))
        stream = ScoreStream(len(whole[0]), rule)
        stream.update(*whole)
        clean, bins = stream.result({})
        shifted = Scores.of(*far, rule=rule)
        ranked = detections(metrics.ood_scores(whole[0]), metrics.ood_scores(far[0]))
    assert found.clean.document() == clean.document()
    assert found.shifted["far", 1].document() == shifted.document()
    assert found.ood["far"] == ranked
    for name, expected in bins._asdict().items():
        actual = getattr(found.reliability["clean"], name)
        assert torch.equal(actual.nan_to_num(-1), expected.nan_to_num(-1))


def test_logits_are_stored_in_half_the_space_and_scores_stay(tmp_path):
    ensemble, test = ensemble_of(3, 4), data(31, 4)
    how = {"shifted": {("a", 1): test}, "ood": {"b": test}, "batch_size": 7}
    full = tepui.evaluate(ensemble, test, out=tmp_path / "full", **how)
    half = tepui.evaluate(
        ensemble, test, out=tmp_path / "half", logits_in="float16", **how
    )
    assert json.dumps(full.document()) == json.dumps(half.document())
    exact, rounded = (tepui.read_logits(tmp_path / name) for name in ("full", "half"))
    assert torch.equal(exact.clean[0].half(), rounded.clean[0])
    assert torch.equal(exact.ood["b"].half(), rounded.ood["b"])
    assert torch.equal(exact.shifted["a", 1][1], rounded.shifted["a", 1][1])
    assert metrics.accuracy(*rounded.clean) == pytest.approx(full.clean.accuracy)


def test_logits_can_be_left_out_and_those_they_replace_go(tmp_path):
    ensemble, test = ensemble_of(3, 4), data(31, 4)
    full = tepui.evaluate(ensemble, test, out=tmp_path)
    assert [*tmp_path.rglob("*.safetensors")]
    none = tepui.evaluate(
        ensemble, test, out=tmp_path, logits_in="none", overwrite=True
    )
    assert json.dumps(full.document()) == json.dumps(none.document())
    assert not [*tmp_path.rglob("*.safetensors")]


def test_an_impossible_class_stays_finite_in_half_the_space(tmp_path):
    ensemble, test = ensemble_of(2, 4), data(9, 4)
    with torch.no_grad():
        for member in ensemble.members:
            member.bias[3] = -1e9
    test = Arrays(test.inputs, test.targets % 3)
    tepui.evaluate(ensemble, test, out=tmp_path, logits_in="float16")
    assert tepui.read_logits(tmp_path).clean[0].isfinite().all()


def test_a_nan_is_named_by_its_place_in_the_data_set(monkeypatch):
    monkeypatch.setattr(chunks, "LOGITS_AT_ONCE", 8)
    test = data(20, 4)
    test.inputs[17] = torch.nan
    with pytest.raises(ValueError, match="the first at member 0, sample 17"):
        tepui.evaluate(ensemble_of(2, 4), test, batch_size=3)


def test_an_evaluation_that_fails_leaves_no_logits(tmp_path):
    with pytest.raises(ValueError, match="labels of shifted"):
        tepui.evaluate(
            ensemble_of(2, 4),
            data(20, 4),
            shifted={("a", 1): data(20, 9)},
            out=tmp_path,
        )
    assert not [*tmp_path.rglob("*.safetensors")]
