"""Evaluating ensembles of every task: scores from definitions, warnings, storing."""

import json
import math
import warnings

import pytest
import torch
from torch import nn

import tepui
from tepui import Ensemble, metrics, tasks
from tepui.core.storage import read_tensors
from tepui.data import Arrays, Normalize
from tepui.data.preparation import Preparation
from tepui.evaluation import write_predictions
from tepui.tasks import LabelScores, NumberScores, OutputScores, PixelScores

X = torch.randn(50, 4, generator=torch.Generator().manual_seed(0))
LEVELS = (0.1, 0.5, 0.9)
QUANTILES = tasks.Quantiles(LEVELS)


def linear(task, outputs, members=3):
    return Ensemble.build(lambda: nn.Linear(4, outputs), members, seed=1, task=task)


def numbers(count=1):
    shape = (50,) if count == 1 else (50, count)
    return Arrays(X, torch.randn(*shape, generator=torch.Generator().manual_seed(1)))


def evaluated(ensemble, data, **options):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "member .* may not have learned")
        return tepui.evaluate(ensemble, data, batch_size=7, **options)


@pytest.mark.parametrize("count", [1, 2])
def test_scores_of_numbers(count):
    ensemble, data = linear(tasks.Numbers(), count), numbers(count)
    scores = evaluated(ensemble, data).clean
    outputs = ensemble.logits(X)
    targets = data.targets.reshape(50, count)
    assert isinstance(scores, NumberScores)
    assert scores.rmse == pytest.approx(float(metrics.rmse(outputs, targets)), rel=1e-5)
    alone = [float((out - targets).square().mean().sqrt()) for out in outputs]
    assert scores.member_rmses == pytest.approx(alone, rel=1e-5)
    assert scores.individual_rmse == pytest.approx(sum(alone) / 3, rel=1e-5)
    assert scores.crps == pytest.approx(float(metrics.sample_crps(outputs, targets)))
    assert math.isnan(scores.quantile_loss)
    spread = float(outputs.std(0, unbiased=False).mean())
    assert scores.spread == pytest.approx(spread, rel=1e-5)
    for name in ("nll", "interval_coverage", "interval_width", "quantile_calibration"):
        assert math.isnan(getattr(scores, name))


def test_scores_of_normal_distributions():
    ensemble, data = linear(tasks.Gaussians(), 2), numbers()
    scores, out = evaluated(ensemble, data).clean, ensemble.predict(data)
    means, variances = ensemble.logits(X)[..., :1], ensemble.logits(X)[..., 1:].exp()
    targets = data.targets[:, None]
    assert scores.nll == pytest.approx(
        float(metrics.gaussian_nll(means, variances, targets)), rel=1e-5
    )
    assert scores.crps == pytest.approx(
        float(metrics.gaussian_crps(means, variances, targets)), rel=1e-5
    )
    lower, upper = out.interval(0.9)
    inside = ((lower <= targets) & (targets <= upper)).float().mean()
    assert scores.interval_coverage == pytest.approx(float(inside))
    assert scores.interval_width == pytest.approx(
        float((upper - lower).mean()), rel=1e-4
    )
    assert scores.nominal_coverage == 0.9
    assert 0 <= scores.quantile_calibration <= 1


def test_scores_of_quantiles():
    ensemble, data = linear(QUANTILES, 3), numbers()
    scores, out = evaluated(ensemble, data).clean, ensemble.predict(data)
    targets = data.targets[:, None]
    lower, upper = out.interval(0.8)
    inside = ((lower <= targets) & (targets <= upper)).float().mean()
    assert scores.interval_coverage == pytest.approx(float(inside))
    values = out.quantiles.movedim(0, -1)
    expected = metrics.quantile_crps(values, targets, levels=LEVELS)
    assert scores.quantile_loss == pytest.approx(float(expected), rel=1e-5)
    assert math.isnan(scores.crps)  # no whole distribution, and no column of those
    assert scores.nominal_coverage == 0.8
    assert math.isnan(scores.nll)


@pytest.mark.parametrize("labels", [1, 3])
def test_scores_of_labels(labels):
    ensemble = linear(tasks.Labels(), labels)
    truth = (X[:, :labels] > 0.3).long()
    data = Arrays(X, truth[:, 0] if labels == 1 else truth)
    scores, out = evaluated(ensemble, data).clean, ensemble.predict(X)
    assert isinstance(scores, LabelScores)
    assert scores.accuracy == pytest.approx(float((out.labels == truth).float().mean()))
    expected = metrics.mean_average_precision(out.probs.contiguous(), truth)
    assert scores.mean_average_precision == pytest.approx(float(expected))
    areas = metrics.label_auroc(out.probs.contiguous(), truth)
    assert scores.mean_auroc == pytest.approx(float(areas.mean()))
    errors = metrics.label_ece(out.probs.contiguous(), truth)
    assert scores.ece == pytest.approx(float(errors.mean()), rel=1e-5)
    loss = nn.functional.binary_cross_entropy(out.probs, truth.float())
    assert scores.nll == pytest.approx(float(loss), rel=1e-4)
    each = [
        float(nn.functional.binary_cross_entropy_with_logits(z, truth.float()))
        for z in ensemble.logits(X)
    ]
    assert scores.member_nlls == pytest.approx(each, rel=1e-4)


def test_scores_of_pixels_leave_out_those_without_a_label():
    images = torch.randn(9, 2, 4, 4, generator=torch.Generator().manual_seed(2))
    labels = (images.sum(1) > 0).long()
    labels[:, 0] = -100
    labels[3] = -100  # an image without any
    ensemble = Ensemble.build(lambda: nn.Conv2d(2, 2, 1), members=2)
    ensemble.task = tasks.Classes()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "member .* may not have learned")
        found = tepui.evaluate(ensemble, Arrays(images, labels), batch_size=1)
    scores, known = found.clean, labels != -100
    assert isinstance(scores, PixelScores)
    out = ensemble.predict(images)
    right = (out.labels == labels)[known].float().mean()
    assert scores.accuracy == pytest.approx(float(right))
    shares = []
    for name in range(2):
        predicted, true = (out.labels == name) & known, labels == name
        shares.append(float((predicted & true).sum() / (predicted | true).sum()))
    assert scores.mean_iou == pytest.approx(sum(shares) / 2)
    logits, answers = metrics.pixels(out.outputs, labels, ignored=-100)
    assert scores.ece == pytest.approx(float(metrics.ece(logits, answers)), rel=1e-5)
    assert found.reliability["clean"].count.sum() == known.sum()


def test_of_unknown_outputs_only_the_spread_is_said():
    ensemble = linear(tasks.Unknown(), 2)
    scores = evaluated(ensemble, numbers()).clean
    assert isinstance(scores, OutputScores)
    outputs = ensemble.logits(X)
    spread = float(outputs.std(0, unbiased=False).mean())
    assert scores.spread == pytest.approx(spread, rel=1e-5)


TASKS = {
    "regression": (tasks.Numbers(), 1),
    "gaussian": (tasks.Gaussians(), 2),
    "quantiles": (QUANTILES, 3),
    "multi_label": (tasks.Labels(), 2),
    "unknown": (tasks.Unknown(), 2),
}


@pytest.mark.parametrize("name", TASKS)
def test_an_evaluation_of_any_task_is_whole(name, tmp_path):
    task, outputs = TASKS[name]
    ensemble = linear(task, outputs)
    data = numbers()
    if name == "multi_label":
        data = Arrays(X, (X[:, :2] > 0).long())
    own = {"largest": lambda outputs, targets: outputs.max()}
    found = evaluated(
        ensemble,
        data,
        shifted={("same", 1): data, ("same", 2): data},
        ood={"far": Arrays(X * 9, data.targets)},
        metrics=own,
        out=tmp_path,
    )
    document = json.loads(json.dumps(found.document()))
    assert document["task"] == task.written()
    assert document["clean"].keys() == document["shifted"].keys()
    largest = float(ensemble.logits(X).max())
    assert found.clean.custom["largest"] == pytest.approx(largest)
    for first, second in zip(
        found.clean.values().values(),
        found.corrupted_mean.values().values(),
        strict=True,
    ):
        assert first == pytest.approx(second, nan_ok=True)
    assert all(0 <= found.ood["far"][score].auroc <= 1 for score in found.ood["far"])
    assert found.mistakes == {}
    assert str(found).startswith("50 samples, 3 members")
    stored = tepui.read_logits(tmp_path)
    assert stored.task == task
    torch.testing.assert_close(stored.clean[0], ensemble.logits(X))
    assert torch.equal(stored.clean[1], data.targets)
    assert stored.ood["far"].shape == stored.clean[0].shape


@pytest.mark.parametrize("name", TASKS)
def test_files_hold_what_predict_says(name, tmp_path):
    task, outputs = TASKS[name]
    ensemble, data = linear(task, outputs), numbers()
    file, out = tmp_path / "out.safetensors", ensemble.predict(data)
    write_predictions(ensemble, data, file, probabilities=True)
    found, document = read_tensors(file, "predictions")
    assert document["task"] == task.written()
    assert torch.equal(found["target"], data.targets)
    plain = {"prediction": "labels", "probability": "probs", "lower": None}
    plain |= {f"{n}_variance": n for n in ("epistemic", "aleatoric")} | {"upper": None}
    for key, tensor in found.items():
        field = plain.get(key, key)
        if field is not None and key not in ("target", "quantiles"):
            torch.testing.assert_close(tensor, getattr(out, field))
    if name == "quantiles":
        quantiles = out.quantiles.movedim(0, -1).flatten(1)
        torch.testing.assert_close(found["quantiles"], quantiles)


def test_mistakes_are_found_by_what_finds_them():
    truth = torch.arange(40) % 4
    data = Arrays(torch.eye(4)[truth], truth)
    layer = nn.Linear(4, 4, bias=False)
    with torch.no_grad():
        layer.weight.copy_(5 * torch.eye(4))
        layer.weight[:, 3] = torch.tensor([0.0, 0.0, 0.2, 0.1])  # class 3 is unlearned
    found = tepui.evaluate(Ensemble([layer]), data)
    assert found.clean.accuracy == 0.75
    assert found.mistakes["entropy"].auroc == 1.0
    assert found.mistakes["entropy"].samples == 10
    assert found.document()["mistakes"]["entropy"]["auroc"] == 1.0
    left = {name: item._asdict() for name, item in found.selective.items()}
    assert left.keys() >= {"entropy", "pds"}
    assert found.document()["selective"] == left
    left = found.selective["max_mean_probability"]
    assert left.error_at_80 == pytest.approx(2 / 32)
    assert left.error_at_90 == pytest.approx(6 / 36)
    curve = metrics.selective_curve(layer(data.inputs).detach()[None], truth)
    assert left.aurc == pytest.approx(float(curve.risk.mean()))
    assert "mistakes" in str(found)
    layer.weight.data.copy_(5 * torch.eye(4))
    assert tepui.evaluate(Ensemble([layer]), data).mistakes == {}


def fixed(weight):
    layer = nn.Linear(4, 1, bias=False)
    layer.weight.data.copy_(torch.tensor([weight]))
    return layer


def test_a_member_that_predicts_the_mean_is_named():
    truth = X @ torch.tensor([1.0, 2, 0, 0])
    good, dead = fixed([1.0, 2, 0, 0.1]), fixed([0.0, 0, 0, 0])
    ensemble = Ensemble([good, dead, fixed([1.0, 2, 0.1, 0])], task=tasks.Numbers())
    with pytest.warns(UserWarning, match="member 1 may not have learned"):
        tepui.evaluate(ensemble, Arrays(X, truth))


def test_bad_targets_are_refused_in_words():
    with pytest.raises(ValueError, match=r"dataset: targets must have the shape"):
        tepui.evaluate(linear(tasks.Numbers(), 2), numbers())
    with pytest.raises(ValueError, match=r"0 or 1 for each label, got .values"):
        tepui.evaluate(linear(tasks.Labels(), 1), Arrays(X, torch.full((50,), 2)))
    mask = torch.ones(2, dtype=torch.bool)
    with pytest.raises(ValueError, match="classes must be left out"):
        tepui.evaluate(linear(tasks.Numbers(), 1), numbers(), classes=mask)


@pytest.mark.parametrize("name", ["regression", "gaussian", "quantiles"])
def test_scores_are_those_of_outputs_and_targets_in_their_own_unit(name):
    """As of members that answer in that unit, a standard deviation of 7."""
    task, outputs = TASKS[name]
    ensemble, data = linear(task, outputs), numbers()
    plain = evaluated(ensemble, data).clean
    ensemble.preparation = Preparation(units=Normalize((3.0,), (7.0,)))
    ensemble.conformal(data, 0.8)
    found = evaluated(ensemble, data)
    seen = ensemble.predict(data)
    own = data.targets.reshape(50, 1).double() * 7 + 3
    lower, upper = seen.conformal_interval
    width = float((upper - lower).mean())
    assert found.applied.size == pytest.approx(width, rel=1e-5)
    inside = ((lower <= own) & (own <= upper)).double().mean()
    assert found.applied.coverage == pytest.approx(float(inside))
    if name != "quantiles":  # whose members' own medians are averaged
        rmse = float((seen.center - own).square().mean().sqrt())
        assert found.clean.rmse == pytest.approx(rmse, rel=1e-5)
    members = [7 * each for each in plain.member_rmses]
    assert found.clean.member_rmses == pytest.approx(members)
    if name == "gaussian":
        assert found.clean.nll == pytest.approx(plain.nll + math.log(7))
    assert found.clean.values().keys() == plain.values().keys()
