"""Evaluation: outputs once, and every score what the metrics say."""

import json
import math
from statistics import fmean

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.utils.data import Dataset, Subset, TensorDataset

from strategies import RULES, labeled_ensembles, modest
from tepui import Ensemble, Scores, fit, load, metrics
from tepui.data import Arrays, ColorJitter, Digits, GaussianBlur, corrupted
from tepui.ensembles.outputs import dataset_logits
from tepui.evaluation.evaluate import evaluate
from tepui.evaluation.stored_logits import read_logits
from tepui.methods import DeepEnsemble
from tepui.models import ConvNet, ResNet18
from tepui.tasks.scores import score_names

NOISE = torch.Generator().manual_seed(0)
X, Y = torch.randn(40, 4, generator=NOISE), torch.arange(40) % 3
DATA = Arrays(X, Y)
NAMES = list(score_names(Scores))
PAIRS = {"disagreement", "der", "logit_variance", "mean_kl"}
RATIOS = {"der", "eir"}


def net():
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 3))


@pytest.fixture
def ensemble():
    return Ensemble.build(net, members=3, seed=13)


class Plain(Dataset):
    """A map-style data set that holds no tensors of its own."""

    def __len__(self):
        return len(Y)

    def __getitem__(self, index):
        return X[index], int(Y[index])


class Infinite(torch.utils.data.IterableDataset):
    def __iter__(self):
        yield X[0], Y[0]


def shifts():
    """Cells of data sets that grow harder, in an order that is not theirs."""
    return {
        (kind, severity): Arrays(X + severity * scale, Y)
        for severity in (5, 1)
        for kind, scale in (("fog", 0.5), ("noise", -1.0))
    }


def expected_scores(logits, labels, rule):
    """All scores from the metrics and their definitions."""
    individual = metrics.individual_accuracy(logits, labels).double().mean().item()
    accuracy = metrics.accuracy(logits, labels, rule=rule).item()
    error = 1 - individual
    pairs = len(logits) > 1
    disagreement = metrics.disagreement(logits).item() if pairs else math.nan
    return {
        "individual_accuracy": individual,
        "accuracy": accuracy,
        "improvement": accuracy - individual,
        "disagreement": disagreement,
        "der": disagreement / error if error > 1e-9 else math.nan,
        "eir": (accuracy - individual) / error if error > 1e-9 else math.nan,
        "logit_variance": metrics.logit_variance(logits).item() if pairs else math.nan,
        "mean_kl": metrics.mean_kl(logits).item() if pairs else math.nan,
        "unique_predictions": metrics.unique_predictions(logits).item(),
        "nll": metrics.nll(logits, labels, rule=rule).item(),
        "ece": metrics.ece(logits, labels, rule=rule).item(),
        "brier": metrics.brier(logits, labels, rule=rule).item(),
    }


def same(actual, expected, rel=1e-9):
    actual = actual.values() if isinstance(actual, Scores) else actual
    expected = expected.values() if isinstance(expected, Scores) else expected
    assert actual == pytest.approx(expected, rel=rel, abs=rel, nan_ok=True)


@modest
@given(labeled_ensembles(), st.sampled_from(RULES))
def test_scores_equal_the_metrics_called_directly(case, rule):
    same(Scores.of(*case, rule=rule), expected_scores(*case, rule))


@modest
@given(labeled_ensembles())
def test_a_single_member_has_no_scores_of_pairs(case):
    logits, labels = case
    values = Scores.of(logits[:1], labels).values()
    undefined = {name for name, value in values.items() if math.isnan(value)}
    assert undefined - {"eir"} == PAIRS
    assert values["improvement"] == 0
    assert values["unique_predictions"] == 1


def test_members_without_errors_leave_ratios_undefined_and_do_not_warn():
    logits = 9 * nn.functional.one_hot(torch.tensor([[0, 1], [0, 1]]), 2).double()
    values = Scores.of(logits, torch.tensor([0, 1]))
    assert math.isnan(values.der)
    assert math.isnan(values.eir)
    assert values.accuracy == 1


@pytest.mark.parametrize("rule", RULES)
def test_evaluate_scores_the_logits_of_the_ensemble(ensemble, rule):
    result = evaluate(ensemble, DATA, rule=rule, batch_size=7)
    logits = ensemble.logits(X)
    same(result.clean, Scores.of(logits, Y, rule=rule), rel=1e-5)
    assert (result.rule, result.members, result.samples) == (rule, 3, 40)
    assert (result.shifted, result.corrupted_mean, result.by_severity()) == (
        {},
        None,
        {},
    )
    bins = metrics.reliability(logits, Y, rule=rule)
    torch.testing.assert_close(result.reliability["clean"], bins, equal_nan=True)


def test_evaluate_leaves_mode_statistics_and_generators_alone(ensemble):
    ensemble.train()
    ensemble.members[1].eval()
    modes = [part.training for part in ensemble.modules()]
    before = {name: value.clone() for name, value in ensemble.state_dict().items()}
    state = torch.get_rng_state()
    evaluate(ensemble, DATA)
    evaluate(ensemble, Plain())
    assert [part.training for part in ensemble.modules()] == modes
    assert all(torch.equal(v, before[k]) for k, v in ensemble.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("batch_size", [1, 7, 40, 99])
@pytest.mark.parametrize(
    "dataset",
    [Plain(), TensorDataset(X, Y), Subset(DATA, range(40))],
    ids=["plain", "tensors", "subset"],
)
def test_any_data_set_gives_what_tensors_give(ensemble, dataset, batch_size):
    logits, labels = dataset_logits(ensemble, dataset, batch_size)
    expected, _ = dataset_logits(ensemble, DATA)
    torch.testing.assert_close(logits, expected)
    assert torch.equal(labels, Y)
    same(evaluate(ensemble, dataset).clean, evaluate(ensemble, DATA).clean, rel=1e-5)


def test_means_are_means_and_ratios_are_ratios_of_means(ensemble):
    result = evaluate(ensemble, DATA, shifted=shifts())
    rows, mean = list(result.shifted.values()), result.corrupted_mean
    for name in set(NAMES) - RATIOS:
        expected = fmean(getattr(row, name) for row in rows)
        assert getattr(mean, name) == pytest.approx(expected, rel=1e-12)
    error = 1 - fmean(row.individual_accuracy for row in rows)
    assert mean.der == pytest.approx(fmean(r.disagreement for r in rows) / error)
    assert mean.eir == pytest.approx(fmean(r.improvement for r in rows) / error)
    assert mean.der != pytest.approx(fmean(row.der for row in rows), rel=1e-6)


def test_reliability_of_shifted_data_pools_all_samples(ensemble):
    result = evaluate(ensemble, DATA, shifted=shifts())
    logits = torch.cat([ensemble.logits(data.inputs) for data in shifts().values()], 1)
    pooled = metrics.reliability(logits, Y.repeat(4))
    torch.testing.assert_close(result.reliability["shifted"], pooled, equal_nan=True)


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("rule", RULES)
def test_the_document_is_json_without_nan_and_holds_everything(members, rule):
    ensemble = Ensemble.build(net, members=members)
    result = evaluate(ensemble, DATA, shifted=shifts(), rule=rule)
    document = result.document()
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert document["clean"]["accuracy"] == result.clean.accuracy
    assert document["shifted"]["nll"] == result.corrupted_mean.document()["nll"]
    assert document["severities"]["5"] == result.by_severity()[5].document()
    cells = [(cell["type"], cell["severity"]) for cell in document["cells"]]
    assert cells == list(result.shifted)
    assert document["precision"] == "float32"
    assert sum(document["reliability"]["clean"]["count"]) == 40
    assert sum(document["reliability"]["shifted"]["count"]) == 160
    assert (document["clean"]["mean_kl"] is None) == (members == 1)


def test_corruptions_of_the_augmentation_are_seen_in_training(tmp_path):
    digits = Digits(train=False).subset(range(40))
    ensemble = Ensemble.build(lambda: ConvNet(10, in_channels=1, width=2), members=1)
    augment = [GaussianBlur(), ColorJitter(brightness=0.4, contrast=0, saturation=0)]
    how = {"epochs": 1, "augment": augment, "out": tmp_path / "run"}
    fit(ensemble, digits, method=DeepEnsemble(), **how)
    kinds = ("brightness", "contrast", "gaussian_blur")
    copies = corrupted(digits, types=kinds, severities=(1, 2))
    found = evaluate(load(tmp_path / "run"), digits, shifted=copies | {"fog": digits})
    seen = {
        cell["type"]
        for cell in found.document()["cells"]
        if cell.get("seen_in_training") is True
    }
    assert seen == {"brightness", "gaussian_blur"}
    assert "seen in training: brightness, gaussian blur\n" in str(found)
    plain = evaluate(Ensemble(ensemble.members, [1]), digits, shifted=copies)
    assert "seen" not in str(plain) + json.dumps(plain.document())


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize(
    ("precision", "gap"), [("float32", 1e-3), ("tf32", 1e-2), ("bfloat16", 5e-2)]
)
def test_an_exam_on_a_gpu_gives_what_a_cpu_gives(precision, gap, tmp_path):
    noise = torch.rand(200, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    pictures = torch.nn.functional.interpolate(noise, size=32, mode="bilinear")
    data = Arrays(pictures.mul(255).byte(), torch.arange(200) % 10)
    ensemble = Ensemble.build(lambda: ResNet18(width=8), members=2).eval()
    copies = corrupted(data, severities=(3,))
    evaluate(ensemble, data, shifted=copies, out=tmp_path / "cpu")
    ensemble.cuda()
    seen = []
    hook = ensemble.register_forward_pre_hook(lambda _, x: seen.append(x[0].device))
    result = evaluate(
        ensemble, data, shifted=copies, precision=precision, out=tmp_path / "gpu"
    )
    hook.remove()
    assert {device.type for device in seen} == {"cuda"}
    assert result.document()["precision"] == precision
    host, device = (read_logits(tmp_path / name) for name in ("cpu", "gpu"))
    scale = host.clean[0].abs().max()
    assert (device.clean[0] - host.clean[0]).abs().max() < gap * scale
    for cell, (logits, labels) in host.shifted.items():
        found, same = device.shifted[cell]
        assert torch.equal(same, labels)
        error = (found - logits).abs()
        # Copies may differ by a level here and there, those of JPEG may not.
        error = error.max() if cell[0] == "jpeg_compression" else error.mean()
        assert error < gap * scale, cell


@pytest.mark.parametrize(
    ("dataset", "options", "message"),
    [
        (DATA, {"rule": "median"}, r"^rule must be one of probability, logit, vote"),
        (DATA, {"batch_size": 0}, r"^batch_size must be positive, got 0"),
        (
            DATA,
            {"shifted": {"clean": DATA}},
            r"^shifted must name no natural shift as other data are.*got 'clean'",
        ),
        (DATA, {"shifted": DATA}, r"^shifted must map \(type, severity\).*got Arrays"),
        (Infinite(), {}, r"^dataset must be map-style .*got Infinite"),
        (Subset(DATA, []), {}, r"^dataset must hold at least one sample"),
        (
            Arrays(X, Y + 1),
            {},
            r"^labels of dataset must lie in \[0, 2\] for 3 outputs, got",
        ),
        (Arrays(X * torch.nan, Y), {}, r"^logits must not be NaN"),
        (
            Arrays(X[:, :1], Y),
            {},
            r"^model must accept samples of shape \(1,.*\), but: ",
        ),
    ],
)
def test_bad_input_is_refused(ensemble, dataset, options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        evaluate(ensemble, dataset, out=tmp_path, **options)
    assert not [file for file in tmp_path.rglob("*") if file.is_file()]
