import copy
import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import example, given
from hypothesis import strategies as st
from torch import nn

import tepui
from strategies import modest
from tepui.data.arrays import Batch
from tepui.losses import cross_entropy
from tepui.methods import SAM, DeepEnsemble
from tepui.training.batches import index_stream
from training.cases import (
    assert_different,
    assert_same_bits,
    assert_same_runs,
    convnet,
    fitted,
    images,
    member_of,
    mlp,
    noisy_net,
    numbers,
    one_thread,
)

single = pytest.fixture(autouse=True)(one_thread)
PLAIN = {
    "optimizer": tepui.SGD(lr=0.1, momentum=0, weight_decay=0),
    "schedule": tepui.Constant(),
}


def sam_naive(module, data, rho, adaptive=False):
    """Return the gradient at the perturbed weights, parameter by parameter."""

    def gradients(weights):
        copied = copy.deepcopy(module)
        for parameter, weight in zip(copied.parameters(), weights, strict=True):
            parameter.data = weight.clone()
        F.cross_entropy(copied(data.inputs), data.targets).backward()
        return [parameter.grad for parameter in copied.parameters()]

    weights = [parameter.detach() for parameter in module.parameters()]
    first = gradients(weights)
    scales = [w if adaptive else torch.ones_like(w) for w in weights]
    squares = [
        (scale * g).square().sum() for scale, g in zip(scales, first, strict=True)
    ]
    norm = math.sqrt(sum(float(square) for square in squares)) + 1e-12
    moved = [
        w + rho * scale**2 * g / norm
        for w, scale, g in zip(weights, scales, first, strict=True)
    ]
    return gradients(moved)


def gradient_of(method, module, data):
    member = member_of(module)
    batch = Batch(data.inputs, data.targets, torch.arange(len(data)))
    return method.gradient(member, batch)


@given(st.floats(0, 3), st.booleans(), st.integers(0, 2**32))
@example(1.09375, True, 55109883)  # a short norm, to which 1e-12 is not nothing
@modest
def test_gradient_matches_naive(rho, adaptive, seed):
    torch.manual_seed(seed)
    module, data = mlp().double(), numbers(8, torch.float64, seed)
    _, values = gradient_of(SAM(rho=rho, adaptive=adaptive), module, data)
    found = nn.utils.parameters_to_vector(values)
    expected = nn.utils.parameters_to_vector(sam_naive(module, data, rho, adaptive))
    assert (found - expected).norm() <= 1e-13 * expected.norm()


@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("factory", [noisy_net, convnet])
def test_rho_of_zero_equals_a_deep_ensemble_to_the_bit(factory, adaptive):
    how = {"factory": factory, "epochs": 3}
    plain = fitted(images(), method=DeepEnsemble(), **how)
    assert_same_runs(
        plain, fitted(images(), method=SAM(rho=0, adaptive=adaptive), **how)
    )
    assert_different(plain, fitted(images(), method=SAM(rho=0.1), **how))


def statistics(run):
    return {k: v for k, v in run.ensemble.state_dict().items() if "running" in k}


def test_statistics_are_those_of_the_unperturbed_pass():
    """One step: the buffers are a deep ensemble's, the weights are not."""
    how = {"factory": convnet, "epochs": 1, "batch_size": 24}
    plain = fitted(images(), method=DeepEnsemble(), **how)
    sam = fitted(images(), method=SAM(rho=0.5), **how)
    assert_same_bits(statistics(plain), statistics(sam))
    assert_different(plain, sam)


def test_statistics_see_the_perturbed_pass_when_asked():
    how = {"factory": convnet, "epochs": 1, "batch_size": 24}
    kept = fitted(images(), method=SAM(rho=0.5), **how)
    updated = fitted(images(), method=SAM(rho=0.5, update_statistics=True), **how)
    assert_different(statistics(kept), statistics(updated))
    for name, parameter in kept.ensemble.named_parameters():
        assert torch.equal(parameter, updated.ensemble.get_parameter(name)), name
    tracked = updated.ensemble.members[0].layers[1].num_batches_tracked
    assert int(tracked) == 2


@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("base", [torch.optim.SGD, torch.optim.AdamW])
def test_agrees_with_the_optimizer_in_a_loop_by_hand(base, adaptive):
    ensemble = tepui.Ensemble.build(convnet, members=1, seed=3)
    module, data = copy.deepcopy(ensemble.members[0]), images()
    kwargs = {"lr": 0.05, "weight_decay": 5e-4}
    if base is torch.optim.SGD:
        kwargs["momentum"] = 0.9
    optimizer = tepui.optim.SAM(
        module.parameters(), base, rho=0.2, adaptive=adaptive, module=module, **kwargs
    )
    module.train()
    for rows in index_stream(len(data), 8, ensemble.seeds[0], 0, 6):

        def closure(rows=rows):
            optimizer.zero_grad()
            losses = cross_entropy(module(data.inputs[rows]), data.targets[rows])
            loss = losses.mean()
            loss.backward()
            return loss

        optimizer.step(closure)
    tepui.fit(
        ensemble,
        data,
        method=SAM(rho=0.2, adaptive=adaptive),
        epochs=2,
        batch_size=8,
        optimizer=lambda parameters: base(parameters, **kwargs),
        schedule=tepui.Constant(),
        device="cpu",
        progress="none",
    )
    assert_same_bits(ensemble.members[0], module)


def test_weight_decay_is_no_part_of_the_perturbation():
    """With a huge decay the perturbation still follows the loss alone."""
    data = numbers(8)
    how = {"members": 1, "epochs": 1, "batch_size": 8, "factory": mlp}
    start = tepui.Ensemble.build(mlp, members=1, seed=3).members[0]
    decayed = fitted(
        data,
        method=SAM(rho=0.5),
        optimizer=tepui.SGD(lr=0.1, momentum=0, weight_decay=3.0),
        schedule=tepui.Constant(),
        **how,
    )
    expected = [
        w.detach() - 0.1 * (g + 3.0 * w.detach())
        for w, g in zip(start.parameters(), sam_naive(start, data, 0.5), strict=True)
    ]
    for value, weight in zip(decayed.ensemble.parameters(), expected, strict=True):
        torch.testing.assert_close(value.detach(), weight)


def test_only_the_final_gradient_is_clipped():
    data = numbers(8)
    start = tepui.Ensemble.build(mlp, members=1, seed=3).members[0]
    run = fitted(
        data, mlp, members=1, epochs=1, method=SAM(rho=0.5), clip_norm=1e-3, **PLAIN
    )
    gradients = sam_naive(start, data, 0.5)
    norm = torch.linalg.vector_norm(torch.cat([g.flatten() for g in gradients]))
    for value, weight, gradient in zip(
        run.ensemble.parameters(), start.parameters(), gradients, strict=True
    ):
        expected = weight.detach() - 0.1 * 1e-3 * gradient / norm
        torch.testing.assert_close(value.detach(), expected, rtol=1e-5, atol=1e-8)


def test_weights_and_buffers_are_restored_when_a_pass_fails():
    class Fragile(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = noisy_net()
            self.passes = 0

        def forward(self, x):
            self.passes += 1
            outputs = self.layers(x)
            if self.passes == 2:
                raise RuntimeError("out of memory")
            return outputs

    module, data = Fragile().train(), images()
    reference = copy.deepcopy(module)
    with pytest.raises(RuntimeError, match="out of memory"):
        gradient_of(SAM(rho=0.5), module, data)
    reference(data.inputs)
    assert_same_bits(module, reference)
