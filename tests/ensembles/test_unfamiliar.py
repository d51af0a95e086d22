"""Which inputs look unlike what was held out: every task, files, refusals."""

import pytest
import torch
from sklearn.covariance import LedoitWolf
from torch import nn

import tepui
from tepui import Ensemble, tasks
from tepui.data import Arrays
from tepui.ensembles.feature_detectors import RowDistance
from tepui.evaluation import FeatureDetectors
from tepui.methods import DeepEnsemble
from tepui.metrics import HeldOutScores, ood_scores

STREAM = torch.Generator().manual_seed(0)
TARGETS = {  # of noisy inputs
    "classification": lambda x: x[:, :3].argmax(1),
    "multi_label": lambda x: (x[:, :3] > 0).long(),
    "regression": lambda x: x[:, :3],
    "gaussian": lambda x: x[:, :2],
    "quantiles": lambda x: x[:, :1],
}
OUTPUTS = {"gaussian": 4}
SCORES = ("classification", "multi_label")
OF_FEATURES = ("distance", "mahalanobis", "nearest_neighbor")
OF_LOGITS = ("energy", "entropy", "mutual_information")


TASKS = {
    "classification": tasks.Classes(),
    "multi_label": tasks.Labels(),
    "regression": tasks.Numbers(),
    "gaussian": tasks.Gaussians(),
    "quantiles": tasks.Quantiles((0.1, 0.5, 0.9)),
}


def trained(name, members=3):
    outputs = OUTPUTS.get(name, 3)
    make = lambda: nn.Linear(4, outputs)  # noqa: E731
    ensemble = Ensemble.build(make, members, seed=1, task=TASKS[name])
    with torch.no_grad():
        for member in ensemble.members:
            member.weight.copy_(torch.eye(outputs, 4) + 0.4 * member.weight)
    return ensemble, make


def data(name, samples):
    inputs = torch.randn(samples, 4, generator=STREAM)
    noise = torch.randn(samples, 4, generator=STREAM)
    return Arrays(inputs, TARGETS[name](inputs + noise))


def learn(ensemble, name, held):
    if name in SCORES:
        ensemble.calibrate(held)
    else:
        ensemble.conformal(held)


def compared(held, new):
    """Shares by the scores of held-out samples and of others."""
    known = HeldOutScores.fit(held)
    return known.unfamiliarity(new)


@pytest.mark.parametrize("name", TARGETS)
def test_every_task_compares_inputs_with_those_held_out(name, tmp_path):
    ensemble, make = trained(name)
    held, test = data(name, 400), data(name, 200)
    learn(ensemble, name, held)
    names = OF_LOGITS if name in SCORES else ("epistemic",)
    learned, ensemble.calibration = ensemble.held_out_scores, None
    known, out = ensemble.predict(held).scores(names), ensemble.predict(test)
    expected = compared(known, out.scores(names))
    ensemble.held_out_scores = learned
    out = ensemble.predict(test)
    found = out.unfamiliarity()
    torch.testing.assert_close(found, expected, atol=0.0051, rtol=0)
    assert learned.names == names
    assert torch.equal(out.unfamiliar(0.9), found >= 361 / 401)
    assert 0.02 < out.unfamiliar(0.9).double().mean() < 0.25
    objecting = out.objections(0.9)
    assert tuple(objecting) == names
    assert torch.equal(torch.stack([*objecting.values()]).any(0), out.unfamiliar(0.9))
    ensemble.save(tmp_path)
    again = tepui.load(tmp_path, make).predict(test)
    assert torch.equal(again.unfamiliarity(), found)
    far = ensemble.predict(50 * test.inputs[:50])
    if name not in SCORES:
        assert far.unfamiliar().all()


def test_pixels_are_judged_by_their_image():
    make = lambda: nn.Conv2d(2, 3, 1)  # noqa: E731
    ensemble = Ensemble.build(make, 2, seed=3, task=tasks.Classes())
    images = torch.randn(40, 2, 5, 4, generator=STREAM)
    labels = torch.randint(3, (40, 5, 4), generator=STREAM)
    scores = ensemble.predict(images).scores(OF_LOGITS)
    ensemble.calibrate(Arrays(images, labels))
    out = ensemble.predict(images)
    expected = compared(scores, scores)
    torch.testing.assert_close(out.unfamiliarity(), expected, atol=0, rtol=0)


@pytest.mark.parametrize("method", ["temperature", "vector", "isotonic"])
def test_a_calibration_changes_nothing_of_what_looks_unfamiliar(method):
    ensemble, _ = trained("classification")
    held, test = data("classification", 200), data("classification", 50)
    scores = [ensemble.predict(each).scores(OF_LOGITS) for each in (held, test)]
    ensemble.calibrate(held, method)
    found = ensemble.predict(test).unfamiliarity()
    assert torch.equal(found, compared(*scores))


def test_it_is_taken_back_with_the_calibration(tmp_path):
    ensemble, _ = trained("classification")
    ensemble.save(tmp_path)
    before = (tmp_path / "ensemble.safetensors").read_bytes()
    ensemble.calibrate(data("classification", 60))
    first = ensemble.held_out_scores
    ensemble.conformal(data("classification", 80))
    assert first.samples == 60
    assert ensemble.held_out_scores.samples == 80
    ensemble.calibration = None
    assert ensemble.held_out_scores is None
    ensemble.save(tmp_path, overwrite=True)
    assert (tmp_path / "ensemble.safetensors").read_bytes() == before
    ensemble.conformal(data("classification", 80))
    how = {"method": DeepEnsemble(), "epochs": 1, "progress": "none"}
    tepui.fit(ensemble, data("classification", 64), **how)
    assert ensemble.held_out_scores is None


def scores_of_all(ensemble, inputs):
    features = ensemble.predict(inputs).feature_scores
    found = ood_scores(ensemble.logits(inputs), OF_LOGITS)
    return found | {name: features[name] for name in OF_FEATURES}


def test_detectors_come_with_the_ensemble_and_judge(tmp_path):
    ensemble, make = trained("classification")
    train, held, test = (data("classification", n) for n in (200, 150, 40))
    far = 50 * test.inputs
    ensemble.calibrate(held)
    ensemble.detectors = FeatureDetectors.fit(ensemble, train, held_out=held, k=5)
    ensemble.save(tmp_path)
    loaded = tepui.load(tmp_path, make)
    for inputs in (test.inputs, far):
        found = loaded.predict(inputs, batch_size=7).unfamiliarity()
        both = (held.inputs, inputs)
        expected = compared(*(scores_of_all(ensemble, each) for each in both))
        torch.testing.assert_close(found, expected, atol=0.011, rtol=0)
    out = loaded.predict(far)
    assert out.unfamiliar().all()
    objecting = out.objections()
    assert [*objecting] == sorted((*OF_LOGITS, *OF_FEATURES))
    assert objecting["mahalanobis"].all()
    assert not objecting["entropy"].any()
    loaded.detectors = None
    loaded.save(tmp_path, overwrite=True)
    assert tepui.load(tmp_path, make).detectors is None
    how = {"method": DeepEnsemble(), "epochs": 1, "progress": "none"}
    tepui.fit(ensemble, train, **how)
    assert ensemble.detectors is None


def distances(train, new):
    """Squared distances from the mean, by the covariance of Ledoit and Wolf."""
    spread = LedoitWolf().fit(train.double().numpy())
    return spread.mahalanobis(new.double().numpy())


@pytest.mark.parametrize("name", TARGETS)
def test_rows_far_out_look_unfamiliar_although_members_agree(name, tmp_path):
    ensemble, make = trained(name)
    train, held, test = (data(name, n) for n in (300, 199, 100))
    detectors = FeatureDetectors.fit(ensemble, train, held_out=held, batch_size=70)
    found = detectors.rows.score(test.inputs)
    expected = distances(train.inputs, test.inputs)
    torch.testing.assert_close(found, torch.from_numpy(expected))
    with torch.no_grad():
        for member in ensemble.members:  # which are now alike far out
            member.load_state_dict(ensemble.members[0].state_dict())
    own = FeatureDetectors.fit(ensemble, train, held_out=held, batch_size=70)
    ensemble.detectors = own
    far = Arrays(30 * test.inputs, test.targets)
    out = ensemble.predict(far.inputs)
    agree = "mutual_information" if name in SCORES else "epistemic"
    assert out.scores((agree,))[agree].abs().max() < 1e-5
    assert out.unfamiliar().all()
    assert not out.objections()[agree].any()
    assert out.objections()["distance"].all()
    assert 0 < ensemble.predict(test).unfamiliar(0.9).double().mean() < 0.25
    ensemble.save(tmp_path)
    loaded = tepui.load(tmp_path, make)
    assert torch.equal(loaded.predict(far).unfamiliarity(), out.unfamiliarity())


def test_rows_of_many_columns_count_by_themselves():
    rows = 3 + 2 * torch.randn(50, 1001, generator=STREAM)
    rows[:, 7] = 1.0
    fitted = RowDistance.fit(rows[:40])
    scale = rows[:40].numpy().std(0)
    scale[7] = 1
    apart = (rows[40:].numpy() - rows[:40].numpy().mean(0)) / scale
    expected = torch.from_numpy((apart**2).sum(1)).double()
    torch.testing.assert_close(fitted.score(rows[40:]), expected, rtol=1e-4, atol=0)


def test_neither_rows_nor_classes_have_no_detectors():
    make = lambda: nn.Sequential(nn.Flatten(), nn.Linear(4, 1))  # noqa: E731
    ensemble = Ensemble.build(make, 2, task=tasks.Numbers())
    images = Arrays(torch.randn(9, 1, 2, 2, generator=STREAM), torch.zeros(9, 1))
    with pytest.raises(ValueError, match="between classes, or take rows of numbers"):
        FeatureDetectors.fit(ensemble, images)
    rows = Arrays(images.inputs.flatten(1), images.targets)
    ensemble.detectors = FeatureDetectors.fit(ensemble, rows)
    with pytest.raises(ValueError, match="inputs must be rows of numbers, as those"):
        tepui.evaluate(ensemble, images)


def test_members_of_other_numbers_are_loaded_without_detectors(tmp_path):
    ensemble, make = trained("classification")
    held = data("classification", 60)
    ensemble.detectors = FeatureDetectors.fit(ensemble, held, held_out=held, k=5)
    ensemble.save(tmp_path)
    with pytest.warns(UserWarning, match=r"detectors\.safetensors is left out"):
        loaded = tepui.load(tmp_path, lambda: make().double())
    assert loaded.detectors is None
    assert loaded.dtype == torch.float64
    with torch.no_grad():
        ensemble.members[0].bias.add_(1)
    detectors = (tmp_path / "detectors.safetensors").read_bytes()
    ensemble.detectors = None
    ensemble.save(tmp_path, overwrite=True)
    (tmp_path / "detectors.safetensors").write_bytes(detectors)
    with pytest.warns(UserWarning, match="it was fitted for other weights"):
        assert tepui.load(tmp_path, make).detectors is None


def test_detectors_without_held_out_data_do_not_judge():
    ensemble, _ = trained("classification")
    ensemble.calibrate(data("classification", 120))
    before = ensemble.predict(torch.ones(3, 4)).unfamiliarity()
    ensemble.detectors = FeatureDetectors.fit(ensemble, data("classification", 60), k=5)
    assert torch.equal(ensemble.predict(torch.ones(3, 4)).unfamiliarity(), before)
