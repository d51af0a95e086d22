"""Detectors of features in an evaluation, averaged over members."""

import pytest
import torch
from sklearn.covariance import LedoitWolf
from torch import nn

import tepui
from mutations import REFUSED, SAME, counted
from tepui import Ensemble
from tepui.core.seeding import seeded
from tepui.core.storage import read_tensors, write_tensors
from tepui.data import Arrays
from tepui.ensembles.feature_detectors import (
    DETECTORS,
    read_detectors,
    write_detectors,
)
from tepui.evaluation import FeatureDetectors
from tepui.metrics import Mahalanobis, NearestNeighbor, auroc
from tepui.models import MLP


def data(samples=60, seed=0, offset=0.0):
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(samples, 4, generator=generator)
    labels = inputs[:, :3].argmax(1)
    return Arrays(inputs + offset, labels)


def ensemble():
    return Ensemble.build(
        lambda: MLP(in_features=4, hidden=(8, 6), num_classes=3), 2, seed=1
    ).eval()


def naive(members, train, test, k):
    """Scores of each member by hand, and their mean."""
    rows = {"mahalanobis": [], "nearest_neighbor": []}
    spread = LedoitWolf().fit(train.inputs.numpy())
    distance = spread.mahalanobis(test.inputs.numpy())
    rows["distance"] = [torch.from_numpy(distance).float()]
    for member in members.members:
        with torch.no_grad():
            known, new = member.features(train.inputs), member.features(test.inputs)
        rows["mahalanobis"].append(Mahalanobis.fit(known, train.targets).score(new))
        rows["nearest_neighbor"].append(NearestNeighbor.fit(known, k).score(new))
    return {name: torch.stack(values).mean(0) for name, values in rows.items()}


def test_evaluate_shows_them_beside_the_scores_of_logits():
    members, train, test = ensemble(), data(), data(50, 1)
    far = data(40, 2, offset=1.5)
    plain = tepui.evaluate(members, test, ood={"far": far})
    members.detectors = FeatureDetectors.fit(members, train, k=4, batch_size=17)
    found = tepui.evaluate(members, test, ood={"far": far}, batch_size=13)
    familiar, unfamiliar = (naive(members, train, x, 4) for x in (test, far))
    for name in familiar:
        expected = auroc(familiar[name], unfamiliar[name]).item()
        assert found.ood["far"][name].auroc == pytest.approx(expected, abs=0.002)
    for name, detection in plain.ood["far"].items():
        assert found.ood["far"][name] == detection
    assert len(found.ood["far"]) == 10
    assert not members.members[0].classifier._forward_pre_hooks
    assert "mahalanobis" in str(found)


def test_no_more_samples_than_told_are_kept():
    members = ensemble()
    detectors = FeatureDetectors.fit(members, data(60), num_samples=7, k=2)
    assert len(detectors.members[0]["nearest_neighbor"].bank) == 7


def test_heads_on_one_extractor():
    with seeded("a body"):
        body = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
    members = Ensemble.on_features(body, lambda: nn.Linear(8, 3), 2).eval()
    members.detectors = FeatureDetectors.fit(members, data(), k=2)
    found = tepui.evaluate(members, data(30, 1), ood={"far": data(30, 2, 9.0)})
    assert found.ood["far"]["mahalanobis"].auroc > 0.9


def test_detectors_of_others_and_members_without_features_are_refused():
    members, far = ensemble(), {"far": data(10, 2)}
    three = Ensemble.build(lambda: MLP(in_features=4, hidden=(6,), num_classes=3), 3)
    three.detectors = FeatureDetectors.fit(members, data(), k=2)
    with pytest.raises(ValueError, match="detectors must be fitted for an ens"):
        tepui.evaluate(three, data(), ood=far)
    convolutions = Ensemble.build(lambda: nn.Conv2d(1, 3, 1), 2)
    images = Arrays(torch.zeros(4, 1, 2, 2), torch.zeros(4).long())
    with pytest.raises(ValueError, match="model must have a linear layer"):
        FeatureDetectors.fit(convolutions, images)
    with pytest.raises(ValueError, match="num_samples must be positive, got 0"):
        FeatureDetectors.fit(members, data(), num_samples=0)


def test_damaged_detectors_are_refused(tmp_path):
    members = ensemble()
    detectors = FeatureDetectors.fit(members, data(), held_out=data(9, 1), k=2)
    write_detectors(tmp_path, detectors, members)
    file = tmp_path / DETECTORS

    def read(_):
        found = read_detectors(tmp_path, members).tensors()
        return {name: tensor.tolist() for name, tensor in found.items()}

    whole = read(file)
    counts = counted(file, read, lambda found: found == whole, range(40))
    assert counts.keys() <= {SAME, REFUSED}
    tensors, about = read_tensors(file, "detectors")
    tensors["held_out"] = torch.zeros(9, 2)
    write_tensors(file, "detectors", tensors, about)
    with pytest.raises(ValueError, match="held-out scores must have shape"):
        read_detectors(tmp_path, members)
