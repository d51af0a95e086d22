"""Members choose between the classes that a data set holds."""

import pytest
import torch
from torch import nn

import tepui
from data_layouts import picture
from tepui.data import ImageNet, ImageNetA, to_arrays
from tepui.evaluation.ood import detections
from tepui.metrics import subset_accuracy
from tepui.tasks import Scores

WNIDS = ("n01", "n02", "n03", "n04", "n05")
MASK = torch.tensor([False, True, False, False, True])


@pytest.fixture
def root(tmp_path, monkeypatch):
    """ImageNet with five classes and ImageNet-A with the second and the fifth."""
    monkeypatch.setattr("tepui.data.sets.imagenet.CLASSES", 5)
    for number, wnid in enumerate(WNIDS):
        for image in range(4):
            shade = (50 * number, 60 * image, 90)
            picture(tmp_path / "imagenet" / "val" / wnid / f"{image}.png", shade)
            if MASK[number]:
                shade = (60 * image, 50 * number, 200)
                picture(tmp_path / "imagenet-a" / wnid / f"{image}.png", shade)
    return tmp_path


@pytest.fixture
def ensemble():
    return tepui.Ensemble.build(
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 5)), members=3, seed=13
    )


def logits_of(ensemble, data):
    held = to_arrays(data)
    return ensemble.logits(held.prepare(held.inputs)).detach(), held.targets


def test_a_set_of_some_classes_is_scored_among_them(root, ensemble):
    data = ImageNetA(root, size=8)
    actual = tepui.evaluate(ensemble, data, rule="logit")
    logits, labels = logits_of(ensemble, data)
    assert actual.classes == actual.document()["classes"] == 2
    expected = subset_accuracy(logits, labels, MASK, protocol="restricted")
    assert actual.clean.accuracy == pytest.approx(float(expected))
    among = Scores.of(logits[..., MASK], (labels == 4).long(), rule="logit")
    assert actual.clean == among
    everything = tepui.evaluate(ensemble, data, classes="all", rule="logit")
    assert everything.classes == 5
    expected = subset_accuracy(logits, labels, MASK, protocol="unrestricted")
    assert everything.clean.accuracy == pytest.approx(float(expected))
    assert everything.clean.nll > actual.clean.nll


def test_a_mask_serves_where_the_data_set_has_none(root, ensemble):
    data = ImageNetA(root, size=8)
    plain = to_arrays(data)
    assert tepui.evaluate(ensemble, plain).classes == 5
    actual = tepui.evaluate(ensemble, plain, classes=data.class_subset)
    assert actual.document() == tepui.evaluate(ensemble, data).document()


def test_shifted_sets_go_by_their_own_classes_or_those_of_the_test_set(root, ensemble):
    clean, other = ImageNet(root, train=False, size=8), ImageNetA(root, size=8)
    among = tepui.evaluate(ensemble, other).clean
    actual = tepui.evaluate(ensemble, clean, shifted={("ImageNet-A", 1): other})
    assert actual.classes == 5
    assert actual.shifted["ImageNet-A", 1] == among
    copies = {("same", 1): to_arrays(other)}
    actual = tepui.evaluate(ensemble, other, shifted=copies)
    assert actual.shifted["same", 1] == actual.clean == among


def test_unfamiliar_samples_and_stored_logits_have_the_classes_left(
    root, ensemble, tmp_path
):
    data = ImageNetA(root, size=8)
    far = tepui.data.UniformNoise(20, like=to_arrays(data))
    actual = tepui.evaluate(ensemble, data, ood={"noise": far}, out=tmp_path / "out")
    stored = tepui.read_logits(tmp_path / "out")
    logits, labels = logits_of(ensemble, data)
    assert torch.allclose(stored.clean[0], logits[..., MASK])
    assert torch.equal(stored.clean[1], (labels == 4).long())
    assert torch.allclose(stored.ood["noise"], logits_of(ensemble, far)[0][..., MASK])
    unfamiliar = tepui.metrics.ood_scores(stored.ood["noise"])
    familiar = tepui.metrics.ood_scores(stored.clean[0])
    expected = detections(familiar, unfamiliar)
    assert actual.ood["noise"] == expected


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        ("own", "classes must be one of held, all, got 'own'"),
        (torch.ones(4, dtype=torch.bool), r"mask must be boolean of shape \(5,\)"),
        (~MASK, "labels must belong to classes in the mask, got '8 outside'"),
    ],
)
def test_classes_that_do_not_fit_are_refused(classes, message, root, ensemble):
    with pytest.raises(ValueError, match=message):
        tepui.evaluate(ensemble, ImageNetA(root, size=8), classes=classes)
