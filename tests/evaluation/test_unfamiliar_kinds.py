"""Drawings, textures, noise and other classes are found, by all scores together.

Of digits: 0 to 7 are familiar, from pixels and on features of a frozen extractor.
"""

import math

import pytest
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn

import tepui
from tepui import Ensemble
from tepui.data import Arrays
from tepui.evaluation import FeatureDetectors
from tepui.methods import DeepEnsemble
from tepui.metrics import HeldOutScores, auroc
from tepui.metrics.held_out_scores import unfamiliar_at
from tepui.models import ConvNet

HOW = {"method": DeepEnsemble(), "epochs": 10, "progress": "none"}


def edges(images):
    """Drawings: the length of the gradient, by Sobel's filter."""
    across = torch.tensor([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]])
    filters = torch.stack([across, across.T])[:, None]
    padded = F.pad(images, (1, 1, 1, 1), mode="replicate")
    return (F.conv2d(padded, filters).norm(dim=1, keepdim=True) / 4).clamp(0, 1)


def waves(count, generator):
    """Textures: waves of any direction and length."""
    length, angle, phase = torch.rand(3, count, 1, 1, generator=generator)
    y, x = torch.meshgrid(torch.arange(8.0), torch.arange(8.0), indexing="ij")
    along = x * (math.pi * angle).cos() + y * (math.pi * angle).sin()
    return ((0.5 + 2 * length) * along + 2 * math.pi * phase).sin()[:, None] / 2 + 0.5


def labeled(images):
    return Arrays(images, torch.zeros(len(images)).long())


@pytest.fixture(scope="module")
def digits():
    generator = torch.Generator().manual_seed(0)
    images, labels = map(torch.from_numpy, load_digits(return_X_y=True))
    order = torch.randperm(len(images), generator=generator)
    images = images[order].float().reshape(-1, 1, 8, 8) / 16
    labels = labels[order].long()
    known = labels < 8
    kinds = {
        "drawings": edges(images[known][:300]),
        "textures": waves(300, generator),
        "noise": torch.rand(300, 1, 8, 8, generator=generator),
        "other classes": images[~known],
    }
    familiar = images[known]
    train = Arrays(familiar[:340], labels[known][:340])
    return train, familiar[340:], kinds


def from_pixels(train):
    make = lambda: ConvNet(num_classes=8)  # noqa: E731
    ensemble = Ensemble.build(make, members=3, seed=13)
    tepui.fit(ensemble, train, **HOW)
    return ensemble


class Body(nn.Module):
    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, images):
        return self.network.features(images)


def on_features(train):
    other = Ensemble.build(lambda: ConvNet(num_classes=8), members=1, seed=7)
    tepui.fit(other, train, **HOW)
    body = Body(other.members[0]).eval()
    size = body(train.inputs[:1]).shape[1]
    ensemble = Ensemble.on_features(body, lambda: nn.Linear(size, 8), 3, seed=1)
    tepui.fit(ensemble, train, **HOW)
    return ensemble


@pytest.mark.parametrize("made", [from_pixels, on_features])
def test_the_joint_score_is_near_the_best_of_each_kind(made, digits):
    train, familiar, kinds = digits
    ensemble = made(train)
    held, test = familiar[:550], familiar[550:]
    ensemble.detectors = FeatureDetectors.fit(ensemble, train, held_out=labeled(held))

    def found(images):
        out = ensemble.predict(images)
        return out.scores() | dict(out.feature_scores)

    known = found(test)
    by_held_out = ensemble.detectors.held_out

    def joint(scores):
        return by_held_out.surprises(scores).sum(1)

    for name, images in kinds.items():
        scores = found(images)
        alone = {n: float(auroc(known[n], scores[n])) for n in known}
        together = float(auroc(joint(known), joint(scores)))
        assert together >= max(alone.values()) - 0.05, (name, alone)
        if max(alone.values()) >= 0.9:
            assert together >= 0.8
        mean = float(ensemble.predict(images).unfamiliarity().mean())
        assert mean > 0.8, name

    # Exchanged again and again, since one set of held-out samples is one draw.
    scores = found(familiar)
    rates, generator = [], torch.Generator().manual_seed(1)
    for _ in range(20):
        first, second = torch.randperm(1100, generator=generator).split(550)
        fitted = HeldOutScores.fit({n: scores[n][first] for n in by_held_out.names})
        new = {n: scores[n][second] for n in by_held_out.names}
        called = unfamiliar_at(0.95, fitted.unfamiliarity(new), 550)
        rates.append(float(called.double().mean()))
    rate = sum(rates) / len(rates)
    assert abs(rate - 0.05) < 2 * math.sqrt(0.05 * 0.95 / 1100)
