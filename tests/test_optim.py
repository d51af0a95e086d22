"""SAM around any optimizer: the closed form, and exact restoring and resuming."""

import io

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F
from torch.optim.lr_scheduler import StepLR

from sam_cases import BASES, X, Y, closure_of, make_net, make_sam, state, train, weights
from strategies import modest
from tepui.core.storage import same_bits
from tepui.optim import SAM, sam_perturbation

base = pytest.mark.parametrize("base", BASES)
adaptive = pytest.mark.parametrize("adaptive", [False, True])


@st.composite
def quadratics(draw):
    """A float64 SPD matrix, a point and where to cut it into two parameters."""
    size = draw(st.integers(2, 6))
    noise = torch.Generator().manual_seed(draw(st.integers(0, 2**32 - 1)))
    Q, _ = torch.linalg.qr(
        torch.randn(size, size, generator=noise, dtype=torch.float64)
    )
    spectrum = 0.5 + 4.5 * torch.rand(size, generator=noise, dtype=torch.float64)
    theta = torch.randn(size, generator=noise, dtype=torch.float64)
    theta *= draw(st.floats(1, 4)) / theta.norm()
    return Q @ spectrum.diag() @ Q.T, theta, draw(st.integers(1, size - 1))


def quadratic_step(H, theta, cut, groups=False, rhos=(0.1, 0.1), **options):
    parts = [nn.Parameter(part.clone()) for part in (theta[:cut], theta[cut:])]
    grouped = [{"params": [p], "rho": r} for p, r in zip(parts, rhos, strict=True)]
    optimizer = SAM(grouped if groups else parts, torch.optim.SGD, lr=0.1, **options)

    def closure():
        optimizer.zero_grad()
        point = torch.cat(parts)
        loss = 0.5 * point @ H @ point
        loss.backward()
        return loss

    loss = optimizer.step(closure)
    torch.testing.assert_close(
        loss.detach(), 0.5 * theta @ H @ theta, atol=0, rtol=1e-12
    )
    return torch.cat(parts).detach()


@adaptive
@modest
@given(case=quadratics(), groups=st.booleans(), rho=st.floats(0, 1))
def test_one_step_on_a_quadratic_equals_the_closed_form(case, groups, rho, adaptive):
    H, theta, cut = case
    g, scale = H @ theta, theta if adaptive else torch.ones_like(theta)
    e = rho * scale.square() * g / (scale * g).norm()
    expected = theta - 0.1 * H @ (theta + e)
    how = {"groups": groups, "rhos": (rho, rho), "rho": rho, "adaptive": adaptive}
    stepped = quadratic_step(H, theta, cut, **how)
    torch.testing.assert_close(stepped, expected, rtol=1e-12, atol=1e-12)


@modest
@given(quadratics())
def test_groups_have_their_own_rho_and_share_one_norm(case):
    H, theta, cut = case
    g = H @ theta
    rho = torch.full_like(theta, 0.7)
    rho[:cut] = 0.2
    expected = theta - 0.1 * H @ (theta + rho * g / g.norm())
    stepped = quadratic_step(H, theta, cut, True, (0.2, 0.7), rho=9.0)
    torch.testing.assert_close(stepped, expected, rtol=1e-12, atol=1e-12)


@adaptive
def test_the_perturbation_of_a_zero_gradient_is_zero(adaptive):
    weights, gradients = (
        [torch.ones(2), torch.ones(3)],
        [torch.zeros(2), torch.zeros(3)],
    )
    offsets = sam_perturbation(weights, gradients, 0.5, adaptive)
    assert [offset.tolist() for offset in offsets] == [[0, 0], [0, 0, 0]]


@base
@adaptive
def test_rho_zero_is_the_base_optimizer_bit_for_bit(base, adaptive):
    plain, wrapped = make_net(), make_net()
    train(plain, BASES[base][0](plain.parameters(), **BASES[base][1]))
    train(wrapped, make_sam(wrapped, base, 0.0, adaptive=adaptive, module=wrapped))
    assert same_bits(state(plain), state(wrapped))
    assert not same_bits(state(plain), state(make_net()))


def twin_step(net, momentum, rho, adaptive, lr=0.1, decay=1e-2):
    """SAM with momentum, written out from the paper, one weight at a time."""
    start = [p.detach().clone() for p in net.parameters()]
    grads = torch.autograd.grad(F.cross_entropy(net(X), Y), list(net.parameters()))
    scale = [p if adaptive else torch.ones_like(p) for p in start]
    squares = sum((s * g).square().sum() for s, g in zip(scale, grads, strict=True))
    with torch.no_grad():
        for p, s, g in zip(net.parameters(), scale, grads, strict=True):
            p.add_(rho * s * s * g / squares.sqrt())
    grads = torch.autograd.grad(F.cross_entropy(net(X), Y), list(net.parameters()))
    with torch.no_grad():
        for i, (p, g) in enumerate(zip(net.parameters(), grads, strict=True)):
            momentum[i] = 0.9 * momentum.get(i, 0) + g + decay * start[i]
            p.copy_(start[i] - lr * (g + decay * start[i] + 0.9 * momentum[i]))


@adaptive
def test_five_steps_agree_with_a_naive_twin(adaptive):
    twin, net = make_net(norm=False), make_net(norm=False)
    momentum = {}
    for _ in range(5):
        twin_step(twin, momentum, 0.3, adaptive)
    train(net, make_sam(net, adaptive=adaptive))
    torch.testing.assert_close(state(net), state(twin), rtol=1e-5, atol=1e-6)


@adaptive
def test_the_pair_of_steps_equals_the_step_with_a_closure(adaptive):
    nets = make_net(norm=False), make_net(norm=False)
    first, second = (make_sam(net, adaptive=adaptive) for net in nets)
    for _ in range(3):
        first.step(closure_of(nets[0], first))
        closure_of(nets[1], second)()
        second.first_step(zero_grad=True)
        assert all(p.grad is None for p in nets[1].parameters())
        F.cross_entropy(nets[1](X), Y).backward()
        second.second_step(zero_grad=True)
        assert all(p.grad is None for p in nets[1].parameters())
    assert same_bits(state(nets[0]), state(nets[1]))


class Recorder(torch.optim.SGD):
    """Remembers the weights it was asked to change, and leaves them alone."""

    def step(self, closure=None):
        self.seen = [p.detach().clone() for p in self.param_groups[0]["params"]]


def test_weights_are_restored_to_the_bit_before_the_base_steps():
    slope = torch.arange(1.0, 7)
    values = torch.tensor([1e-30, -0.0, 1.0, -1e30, 3e-39, 0.1])
    weight = nn.Parameter(values.clone())
    optimizer = SAM([weight], Recorder, rho=0.37, lr=0.1)
    passes = []

    def closure():
        optimizer.zero_grad()
        passes.append(weight.detach().clone())
        (weight * slope).sum().backward()

    optimizer.step(closure)
    assert torch.equal(passes[1][1:3], values[1:3] + 0.37 * slope[1:3] / slope.norm())
    bits = {"w": values}
    assert same_bits({"w": passes[0]}, bits)
    assert same_bits({"w": optimizer.base_optimizer.seen[0]}, bits)
    assert same_bits({"w": weight}, bits)


@pytest.mark.parametrize("failing", [1, 2])
def test_weights_survive_an_exception_in_either_pass(failing):
    net = make_net()
    optimizer = make_sam(net, rho=0.5, module=net)
    before, calls = weights(net), []
    closure = closure_of(net, optimizer)

    def breaking():
        calls.append(weights(net))
        closure()
        if len(calls) == failing:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        optimizer.step(breaking)
    assert same_bits(weights(net), before)
    assert net[1].num_batches_tracked == 1
    assert failing == 1 or not same_bits(calls[1], before)
    train(net, optimizer, 1)
    assert not same_bits(weights(net), before)


@base
def test_training_continues_from_a_saved_state_to_the_same_bits(base):
    def start(rho):
        net = make_net()
        optimizer = make_sam(net, base, rho, module=net)
        return net, optimizer, StepLR(optimizer, 2, gamma=0.5)

    def advance(net, optimizer, schedule):
        for _ in range(3):
            train(net, optimizer, 1)
            schedule.step()

    whole, half, resumed = start(0.3), start(0.3), start(9.0)
    advance(*whole)
    advance(*whole)
    advance(*half)
    file = io.BytesIO()
    torch.save([part.state_dict() for part in half], file)
    file.seek(0)
    for part, saved in zip(resumed, torch.load(file, weights_only=True), strict=True):
        part.load_state_dict(saved)
    advance(*resumed)
    assert same_bits(state(whole[0]), state(resumed[0]))
    assert resumed[1].param_groups[0]["lr"] == BASES[base][1]["lr"] / 8
    assert resumed[1].base_optimizer.param_groups is resumed[1].param_groups


def test_momentum_is_in_the_state_dict_and_a_bare_state_dict_loads_too():
    net = make_net()
    kind, arguments = BASES["sgd"]
    plain = kind(net.parameters(), **arguments)
    train(net, plain, 2)
    optimizer = make_sam(net, rho=0.4, adaptive=True)
    optimizer.load_state_dict(plain.state_dict())
    for parameter, saved in plain.state.items():
        kept = optimizer.state[parameter]["momentum_buffer"]
        assert torch.equal(kept, saved["momentum_buffer"])
    assert optimizer.state_dict()["state"].keys() == plain.state_dict()["state"].keys()
    assert optimizer.param_groups[0]["rho"] == 0.4
    train(net, optimizer, 1)
