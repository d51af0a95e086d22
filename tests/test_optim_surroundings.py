"""SAM among BatchNorm, clipping, mixed precision and odd parameters."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sam_cases import X, Y, closure_of, make_net, make_sam, state, train, weights
from tepui.core.storage import same_bits
from tepui.optim import SAM, sam_perturbation


def buffers(net):
    return dict(net.named_buffers())


def test_running_statistics_are_those_of_the_unperturbed_pass_with_module():
    net, expected = make_net(), make_net()
    expected(X)
    train(net, make_sam(net, module=net), 1)
    assert same_bits(buffers(net), buffers(expected))


def test_running_statistics_in_two_calls_are_those_of_the_first_pass_with_module():
    nets = make_net(), make_net()
    in_two_calls, by_closure = (make_sam(net, module=net) for net in nets)
    for _ in range(3):
        closure_of(nets[0], in_two_calls)()
        in_two_calls.first_step(zero_grad=True)
        closure_of(nets[0], in_two_calls)()
        in_two_calls.second_step()
    train(nets[1], by_closure, 3)
    assert nets[0][1].num_batches_tracked == 3
    assert same_bits(state(nets[0]), state(nets[1]))


def test_running_statistics_follow_both_passes_without_module():
    net, expected = make_net(), make_net()
    optimizer = make_sam(expected)
    train(net, make_sam(net), 1)
    closure_of(expected, optimizer)()
    optimizer.first_step()
    expected(X)
    assert net[1].num_batches_tracked == 2
    assert same_bits(buffers(net), buffers(expected))


def test_clipping_equals_clipping_the_final_gradient_by_hand():
    nets = make_net(norm=False), make_net(norm=False)
    clipped, by_hand = make_sam(nets[0], max_grad_norm=0.05), make_sam(nets[1])
    for _ in range(3):
        clipped.step(closure_of(nets[0], clipped))
        closure_of(nets[1], by_hand)()
        by_hand.first_step()
        closure_of(nets[1], by_hand)()
        norm = nn.utils.clip_grad_norm_(nets[1].parameters(), 0.05)
        assert norm > 0.05
        by_hand.second_step()
    assert same_bits(state(nets[0]), state(nets[1]))


@pytest.mark.parametrize("clip", [None, 0.05])
@pytest.mark.parametrize("adaptive", [False, True])
def test_a_gradient_scaler_changes_no_update(adaptive, clip):
    options = {"adaptive": adaptive, "max_grad_norm": clip}
    plain, scaled = make_net(), make_net()
    train(plain, make_sam(plain, module=plain, **options), 3)
    optimizer = make_sam(scaled, module=scaled, **options)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)
    for _ in range(3):
        optimizer.step(closure_of(scaled, optimizer, scaler), scaler=scaler)
        scaler.update()
    torch.testing.assert_close(state(plain), state(scaled), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("with_module", [True, False])
def test_an_overflow_skips_the_step_and_leaves_no_nan(with_module):
    net = make_net()
    optimizer = make_sam(net, module=net if with_module else None)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127)
    before = weights(net)

    def closure():
        optimizer.zero_grad()
        loss = 1e3 * F.cross_entropy(net(X), Y)
        scaler.scale(loss).backward()
        return loss

    loss = optimizer.step(closure, scaler=scaler)
    assert loss.isfinite()
    assert same_bits(weights(net), before)
    assert all(tensor.isfinite().all() for tensor in net.buffers())
    assert not optimizer.state_dict()["state"]
    scaler.update()
    assert scaler.get_scale() == 2.0**126


def test_an_overflow_of_the_second_pass_alone_skips_the_step_too():
    net = make_net()
    optimizer = make_sam(net, module=net)
    scaler = torch.amp.GradScaler("cpu", init_scale=1.0)
    before, calls = weights(net), []

    def closure():
        calls.append(None)
        factor = torch.inf if len(calls) == 2 else 1.0
        optimizer.zero_grad()
        scaler.scale(F.cross_entropy(net(X), Y) * factor).backward()

    optimizer.step(closure, scaler=scaler)
    assert len(calls) == 2
    assert same_bits(weights(net), before)


def test_parameters_without_gradient_are_ignored():
    used, unused = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    frozen = nn.Parameter(torch.ones(2), requires_grad=False)
    alone = nn.Parameter(torch.ones(2))
    results = []
    for parameters in ([used, unused, frozen], [alone]):
        optimizer = SAM(parameters, torch.optim.SGD, rho=0.5, lr=0.1, weight_decay=0.1)

        def closure(optimizer=optimizer, weight=parameters[0]):
            optimizer.zero_grad()
            weight.square().sum().backward()

        optimizer.step(closure)
        results.append(parameters[0].detach())
    assert torch.equal(*results)
    assert unused.tolist() == frozen.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("size", [1.0, 1e3])
def test_half_precision_moves_as_far_as_asked(size, adaptive, dtype):
    """The norm of 160,000 gradients of 1,000 is too large for float16."""
    weight = nn.Parameter(torch.full((400, 400), 2.0, dtype=dtype))
    optimizer = SAM([weight], torch.optim.SGD, 100.0, adaptive=adaptive, lr=0.1)
    weight.grad = torch.full_like(weight, size)
    optimizer.first_step()
    moved = (weight.detach().double() - 2).norm().item()
    assert moved == pytest.approx(200 if adaptive else 100, rel=0.01)
    parts = [torch.full_like(weight, 2), torch.full_like(weight, size)]
    [offset] = sam_perturbation(*([part] for part in parts), 100.0, adaptive)
    assert offset.dtype == dtype
    assert offset.double().norm().item() == pytest.approx(moved, rel=0.01)


def test_gradients_in_float16_are_clipped_and_not_lost():
    weight = nn.Parameter(torch.zeros(400, 400, dtype=torch.float16))
    optimizer = SAM([weight], torch.optim.SGD, 1.0, lr=1.0, max_grad_norm=100.0)

    def closure():
        optimizer.zero_grad()
        (weight.float().sum() * 1e3).backward()

    optimizer.step(closure)
    assert weight.detach().double().norm().item() == pytest.approx(100, rel=1e-3)


@pytest.mark.parametrize("adaptive", [False, True])
def test_complex_weights_move_like_their_real_and_imaginary_parts(adaptive):
    """In the adaptive form both parts are measured by the modulus."""
    parts = torch.randn(2, 5, 2, generator=torch.Generator().manual_seed(0)).double()
    weight, gradient = torch.view_as_complex(parts)
    scale = weight.abs() if adaptive else 1.0
    length = torch.view_as_real(scale * gradient).norm()
    [offset] = sam_perturbation([weight], [gradient], 0.3, adaptive)
    torch.testing.assert_close(offset, 0.3 * scale * scale * gradient / length)


@pytest.mark.parametrize("options", [{}, {"adaptive": True}, {"max_grad_norm": 0.1}])
def test_sparse_gradients_are_refused_before_weights_move(options):
    layer = nn.Embedding(10, 3, sparse=True)
    optimizer = SAM(layer.parameters(), torch.optim.SGD, lr=0.1, **options)
    before = state(layer)
    seen = []

    def closure():
        seen.append(None)
        layer(torch.tensor([1, 1, 4])).square().sum().backward()

    with pytest.raises(ValueError, match=r"gradients must be dense .*got 'sparse'"):
        optimizer.step(closure)
    assert len(seen) == 1
    assert same_bits(state(layer), before)


def test_an_optimizer_that_makes_passes_itself_is_refused_when_built():
    message = "base_optimizer must make its step without a closure, got 'LBFGS'"
    with pytest.raises(ValueError, match=message):
        SAM(make_net().parameters(), torch.optim.LBFGS, lr=0.1)


def test_a_group_added_later_takes_part_with_all_defaults():
    first, late = nn.Parameter(torch.tensor([3.0])), nn.Parameter(torch.tensor([4.0]))
    optimizer = SAM([first], torch.optim.SGD, rho=0.5, lr=0.1)
    optimizer.add_param_group({"params": [late], "rho": 1.0})

    def closure():
        optimizer.zero_grad()
        (0.5 * (first.square() + late.square())).sum().backward()

    optimizer.step(closure)
    torch.testing.assert_close(first.item(), 3 - 0.1 * (3 + 0.5 * 3 / 5))
    torch.testing.assert_close(late.item(), 4 - 0.1 * (4 + 1.0 * 4 / 5))


def test_the_loss_returned_is_that_at_the_unperturbed_weights():
    net = make_net(norm=False)
    optimizer = make_sam(net, rho=2.0)
    expected = F.cross_entropy(net(X), Y)
    losses = []

    def closure():
        losses.append(closure_of(net, optimizer)())
        return losses[-1]

    assert optimizer.step(closure) is losses[0]
    assert torch.equal(losses[0], expected)
    assert losses[1] > losses[0]


@pytest.mark.parametrize("rho", [-0.1, float("nan")])
def test_a_negative_rho_is_refused_wherever_it_is_given(rho):
    weight = nn.Parameter(torch.ones(1))
    message = f"^rho must be (non-negative|a finite number), got {rho}"
    with pytest.raises(ValueError, match=message):
        SAM([weight], torch.optim.SGD, rho, lr=0.1)
    with pytest.raises(ValueError, match=message):
        SAM([{"params": [weight], "rho": rho}], torch.optim.SGD, lr=0.1)
    optimizer = SAM([weight], torch.optim.SGD, lr=0.1)
    with pytest.raises(ValueError, match=message):
        optimizer.add_param_group({"params": [nn.Parameter(weight * 1)], "rho": rho})
    for owner in (optimizer, optimizer.base_optimizer):
        (group,) = owner.param_groups
        assert group["params"] == [weight]


def test_both_passes_see_the_same_dropout_masks():
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(5, 8), nn.Dropout(0.5), nn.Linear(8, 2)).double()
    plain = copy.deepcopy(model)
    x = torch.randn(6, 5, dtype=torch.float64)
    settings = {"lr": 0.1, "momentum": 0.9}
    sam = SAM(model.parameters(), torch.optim.SGD, rho=0.0, **settings)
    sgd = torch.optim.SGD(plain.parameters(), **settings)
    torch.manual_seed(4)
    for _ in range(3):

        def closure():
            sam.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            return loss

        sam.step(closure)
    drawn = torch.rand(3)
    torch.manual_seed(4)
    for _ in range(3):
        sgd.zero_grad()
        plain(x).square().mean().backward()
        sgd.step()
    assert torch.equal(drawn, torch.rand(3))
    for one, other in zip(model.parameters(), plain.parameters(), strict=True):
        assert torch.equal(one, other)
