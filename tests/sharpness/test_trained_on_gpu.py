"""Scores of trained networks on a GPU come from one pass, whatever trained them."""

import warnings

import pytest
import torch

import tepui
from tepui.data import Arrays, HorizontalFlip, Normalize, RandomCrop
from tepui.methods import SAM, DeepEnsemble, SharpBalance
from tepui.models import ResNet18
from tepui.sharpness import sample_fisher_trace

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def images(samples):
    """Noise around one picture per class, so that there is something to learn."""
    stream = torch.Generator().manual_seed(0)
    labels = torch.arange(samples) % 10
    pictures = torch.randint(256, (10, 3, 32, 32), generator=stream)
    noise = torch.randint(-120, 120, (samples, 3, 32, 32), generator=stream)
    pixels = (pictures[labels] + noise).clamp(0, 255).to(torch.uint8)
    return Arrays(pixels, labels, Normalize((0.5,) * 3, (0.25,) * 3))


@pytest.mark.parametrize("method", [DeepEnsemble(), SAM(), SharpBalance()], ids=repr)
def test_after_forty_epochs_no_parameter_is_differentiated_per_sample(method):
    data = images(1280)
    ensemble = tepui.Ensemble.build(ResNet18, members=2, seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a fallback warns
        # Shifted noise is hard: of two members one may still be guessing.
        warnings.filterwarnings("ignore", "member . may not have learned")
        tepui.fit(
            ensemble,
            data,
            method=method,
            epochs=40,
            batch_size=128,
            augment=(RandomCrop(), HorizontalFlip()),
            device="cuda",
            progress="none",
        )
        torch.set_float32_matmul_precision("high")
        try:
            found = sample_fisher_trace(ensemble.members[0], data)
        finally:
            torch.set_float32_matmul_precision("highest")
    few = data.subset(torch.arange(8))
    module = ensemble.members[0].double().eval()
    inputs = few.prepare(few.inputs).double().cuda()
    for x, y, score in zip(inputs, few.targets.cuda(), found, strict=False):
        loss = tepui.losses.cross_entropy(module(x[None]), y[None]).sum()
        gradient = torch.autograd.grad(loss, list(module.parameters()))
        exact = sum(float(g.square().sum()) for g in gradient)
        assert float(score) == pytest.approx(exact, rel=0.1, abs=1e-6)
