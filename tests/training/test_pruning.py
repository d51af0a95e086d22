"""Sparse members in training: pruned weights stay exactly zero, to the same bits."""

from functools import partial

import pytest
import torch

import tepui
from tepui.data import Arrays
from tepui.data.arrays import Batch
from tepui.losses import cross_entropy
from tepui.methods import GSAM, SAM, DeepEnsemble, SharpBalance
from tepui.models import ConvNet
from tepui.modules.pruning import Prune, masks_of, prune_, sparsity_of
from tepui.sharpness import (
    average_case,
    hessian_trace,
    sam_sharpness,
    sample_fisher_trace,
    sample_sam_gap,
    sample_worst_case_gap,
    worst_case,
)
from training.cases import convnet, fitted, images, member_of

METHODS = [
    DeepEnsemble(),
    SAM(rho=0.2),
    SAM(rho=0.5, adaptive=True),
    GSAM(rho=0.2),
    SharpBalance(rho=0.2, switch_at=1),
]
every_method = pytest.mark.parametrize("method", METHODS, ids=repr)


@every_method
@pytest.mark.parametrize("optimizer", [tepui.SGD(lr=0.05), tepui.AdamW(lr=0.01)])
@pytest.mark.parametrize("after", [0.0, 0.5])
def test_pruned_weights_stay_exactly_zero(method, optimizer, after):
    run = fitted(
        images(),
        convnet,
        method=method,
        optimizer=optimizer,
        epochs=4,
        prune=Prune(sparsity=(0.5, 0.8), prune_at=after),
    )
    for member, sparsity in zip(run.ensemble.members, (0.5, 0.8), strict=True):
        assert sparsity_of(member) == pytest.approx(sparsity, abs=2e-3)
        for name, mask in masks_of(member).items():
            weight = member.get_parameter(name)
            assert not weight[~mask].any()
            assert weight[mask].all()


@pytest.mark.parametrize(("share", "dense"), [(0.5, 2), (0.7, 3), (0.9, 3)])
def test_members_are_pruned_at_the_nearest_epoch(share, dense):
    seen = []
    ensemble = tepui.Ensemble.build(lambda: ConvNet(width=4), members=1)

    def note(record):
        seen.append(sparsity_of(ensemble.members[0]))

    tepui.fit(
        ensemble,
        images(),
        method=DeepEnsemble(),
        epochs=4,
        prune=Prune(sparsity=0.6, prune_at=share),
        callbacks=[note],
        progress="none",
    )
    assert seen == [*[0.0] * dense, *[pytest.approx(0.6, abs=2e-3)] * (4 - dense)]


def test_a_sparse_ensemble_can_be_saved_and_loaded(tmp_path):
    run = fitted(images(), convnet, epochs=1, prune=Prune(sparsity=0.5, prune_at=0.0))
    run.ensemble.save(tmp_path / "sparse")
    factory = type(run.ensemble.members[0])
    loaded = tepui.load(tmp_path / "sparse")
    assert [type(m) for m in loaded.members] == [factory] * len(run.ensemble)
    for member, copy in zip(run.ensemble.members, loaded.members, strict=True):
        for name, mask in masks_of(member).items():
            assert torch.equal(masks_of(copy)[name], mask)


def sparse_net(sparsity=0.5):
    torch.manual_seed(0)
    net = ConvNet(width=4).double()
    prune_(net, sparsity)
    data = images()
    inputs = data.prepare(data.inputs).double()
    return net, Arrays(inputs[:12], data.targets[:12])


def test_gradients_of_a_member_are_masked():
    net, data = sparse_net()
    member = member_of(net)
    batch = Batch(data.inputs, data.targets, torch.arange(len(data)))
    names = [name for name, _ in net.named_parameters()]
    for method in (SAM(rho=0.5), GSAM(rho=0.5), DeepEnsemble()):
        values = dict(zip(names, method.gradient(member, batch).values, strict=True))
        for name, mask in masks_of(net).items():
            assert not values[name][~mask].any()
            assert values[name][mask].any()


def test_the_fisher_trace_leaves_pruned_weights_out():
    net, data = sparse_net()
    masks = masks_of(net)
    net.eval()
    expected = []
    for x, y in data:
        losses = cross_entropy(net(x[None]), y[None])
        grads = torch.autograd.grad(losses.sum(), list(net.parameters()))
        named = zip((name for name, _ in net.named_parameters()), grads, strict=True)
        expected.append(sum((g * masks.get(n, 1)).square().sum() for n, g in named))
    found = sample_fisher_trace(net, data)
    torch.testing.assert_close(found, torch.stack(expected), rtol=1e-10, atol=0)


@pytest.mark.parametrize("measure", [sample_sam_gap, sample_worst_case_gap])
def test_perturbations_leave_pruned_weights_alone(measure):
    net, data = sparse_net()
    dense, _ = sparse_net()
    for layer in list(dense.modules()):
        for name in [n for n in layer._buffers if n.endswith("_mask")]:
            del layer._buffers[name]
    masked, free = measure(net, data, rho=0.5), measure(dense, data, rho=0.5)
    # The perturbation along pruned weights is missing: another, and a smaller, rise.
    assert not torch.allclose(masked, free, rtol=1e-3)
    if measure is sample_worst_case_gap:
        assert masked.mean() < free.mean()


@pytest.mark.parametrize(
    "measure",
    [
        partial(worst_case, adaptive=False, rho=0.2, num_steps=3),
        partial(average_case, adaptive=False, rho=0.1, num_draws=3),
        partial(sam_sharpness, num_draws=3),
        partial(hessian_trace, num_probes=3),
    ],
    ids=lambda measure: measure.func.__name__,
)
def test_sharpness_measures_take_the_masks_of_a_pruned_model(measure):
    net, data = sparse_net()
    own = measure(net, data).value
    for mask in masks_of(net).values():
        mask.fill_(True)
    assert measure(net, data).value != own
