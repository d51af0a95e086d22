"""SAM takes closures that zero gradients, however they do, and refuses all others."""

from contextlib import nullcontext

import pytest
import torch
from torch import distributed, nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils._python_dispatch import TorchDispatchMode

from sam_cases import X, Y, make_net, make_sam, state, train, weights
from tepui.core.storage import same_bits
from tepui.optim import SAM

REFUSAL = r"closure must zero gradients before it backpropagates, but it added to"


def assign_none(net):
    for parameter in net.parameters():
        parameter.grad = None


def assign_zeros(net):
    for parameter in net.parameters():
        parameter.grad = torch.zeros_like(parameter)


def zero_in_place(net):
    for parameter in net.parameters():
        if parameter.grad is not None:
            parameter.grad.zero_()


def zero_unnoticed(net):
    """Zero as old code does, which leaves no mark on the gradients' versions."""
    for parameter in net.parameters():
        if parameter.grad is not None:
            parameter.grad.data.zero_()


ZEROING = {
    "to none": lambda net: net.zero_grad(set_to_none=True),
    "to zero": lambda net: net.zero_grad(set_to_none=False),
    "by hand to none": assign_none,
    "by hand to new zeros": assign_zeros,
    "by hand in place": zero_in_place,
    "by hand through data": zero_unnoticed,
}


def loss_of(net, rows=slice(None)):
    return F.cross_entropy(net(X[rows]), Y[rows])


def closure_by(net, zero, backward=torch.Tensor.backward):
    def closure():
        zero(net)
        loss = loss_of(net)
        backward(loss)
        return loss

    return closure


def nothing(net):
    """Leave gradients as they are."""


@pytest.mark.parametrize("zero", ZEROING)
@pytest.mark.parametrize("norm", [False, True])
def test_every_way_to_zero_gives_the_same_steps(zero, norm):
    nets = make_net(norm), make_net(norm)
    train(nets[0], make_sam(nets[0]), 3)
    optimizer = make_sam(nets[1])
    for _ in range(3):
        optimizer.step(closure_by(nets[1], ZEROING[zero]))
    assert same_bits(state(nets[0]), state(nets[1]))


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("zero_before", [False, True])
def test_a_closure_that_does_not_zero_is_refused_at_the_first_step(scaled, zero_before):
    net = make_net()
    optimizer, before = make_sam(net, module=net), weights(net)
    scaler = torch.amp.GradScaler("cpu") if scaled else None
    if zero_before:
        optimizer.zero_grad()

    def backward(loss):
        (scaler.scale(loss) if scaled else loss).backward()

    with pytest.raises(RuntimeError, match=REFUSAL):
        optimizer.step(closure_by(net, nothing, backward), scaler=scaler)
    assert same_bits(weights(net), before)
    assert not optimizer.state_dict()["state"]


def lightning_loop(net, optimizer, batches, accumulate):
    """What Lightning does: it steps, and zeroes, every so many batches only."""
    for index, rows in enumerate(batches):

        def closure(index=index, rows=rows):
            loss = loss_of(net, rows) / accumulate
            if index % accumulate == 0:
                optimizer.zero_grad()
            loss.backward()
            return loss

        if (index + 1) % accumulate == 0:
            optimizer.step(closure)
        else:
            closure()


BATCHES = torch.arange(len(X)).split(4)


def test_batches_accumulated_between_steps_are_refused():
    net = make_net(norm=False)
    before = weights(net)
    with pytest.raises(RuntimeError, match=rf"{REFUSAL}.*accumulate_grad_batches at 1"):
        lightning_loop(net, make_sam(net), BATCHES, accumulate=2)
    assert same_bits(weights(net), before)


def test_without_accumulation_such_a_loop_is_that_by_hand():
    nets = make_net(norm=False), make_net(norm=False)
    lightning_loop(nets[0], make_sam(nets[0]), BATCHES, accumulate=1)
    optimizer = make_sam(nets[1])
    for rows in BATCHES:

        def closure(rows=rows):
            optimizer.zero_grad()
            loss_of(nets[1], rows).backward()

        optimizer.step(closure)
    assert same_bits(state(nets[0]), state(nets[1]))


@pytest.mark.parametrize("zero", ZEROING)
def test_a_closure_may_accumulate_over_parts_of_a_batch(zero):
    nets = make_net(norm=False).double(), make_net(norm=False).double()
    x, optimizers = X.double(), [make_sam(net) for net in nets]
    for _ in range(3):

        def whole():
            optimizers[0].zero_grad()
            F.cross_entropy(nets[0](x), Y).backward()

        def in_parts():
            ZEROING[zero](nets[1])
            for rows in BATCHES:
                loss = F.cross_entropy(nets[1](x[rows]), Y[rows])
                (loss / len(BATCHES)).backward()

        optimizers[0].step(whole)
        optimizers[1].step(in_parts)
    torch.testing.assert_close(state(nets[0]), state(nets[1]), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("zero", ZEROING)
def test_hooks_of_the_user_raise_no_alarm_and_none_stay_behind(zero):
    net, seen = make_net(), []
    for parameter in net.parameters():
        parameter.register_hook(lambda gradient: gradient.mul(2))
        parameter.register_post_accumulate_grad_hook(seen.append)
    optimizer = make_sam(net)
    for _ in range(2):
        optimizer.step(closure_by(net, ZEROING[zero]))
    assert len(seen) == 4 * len(list(net.parameters()))
    loss_of(net).backward()
    loss_of(net).backward()


def test_frozen_and_unused_parameters_with_old_gradients_raise_no_alarm():
    used, unused = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    frozen = nn.Parameter(torch.ones(2), requires_grad=False)
    unused.grad, frozen.grad = torch.ones(2), torch.ones(2)
    optimizer = SAM([used, unused, frozen], torch.optim.SGD, rho=0.1, lr=0.1)

    def closure():
        used.grad = None
        used.square().sum().backward()

    optimizer.step(closure)
    assert used.detach().lt(1).all()


class NoValues(TorchDispatchMode):
    """Forbids to read a value, for which a GPU would have to be waited for."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        assert "_local_scalar_dense" not in str(function)
        return function(*args, **(kwargs or {}))


def test_a_step_with_a_closure_that_zeroes_reads_no_values():
    net = make_net()
    optimizer = make_sam(net)
    with NoValues():
        for zero in (assign_none, assign_zeros, zero_in_place):
            optimizer.step(closure_by(net, zero))


@pytest.mark.parametrize("zero", ["to none", "to zero"])
@pytest.mark.parametrize("views", [False, True])
def test_gradients_of_several_processes_are_judged_alike(zero, views):
    """With views the gradient after zeroing is the same object as before."""
    store = distributed.HashStore()
    distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        net, plain = make_net(), make_net()
        parallel = DistributedDataParallel(net, gradient_as_bucket_view=views)
        optimizer = make_sam(parallel)
        for _ in range(4):
            optimizer.step(closure_by(parallel, ZEROING[zero]))
        with pytest.raises(RuntimeError, match=REFUSAL):
            optimizer.step(closure_by(parallel, nothing))
    finally:
        distributed.destroy_process_group()
    train(plain, make_sam(plain), 4)
    torch.testing.assert_close(weights(net), weights(plain))


# New zeros could be a gradient that was set by hand.
noticed = pytest.mark.parametrize(
    "zero", sorted(ZEROING.keys() - {"by hand to new zeros"})
)


@noticed
@pytest.mark.parametrize("trained", [False, True])
def test_a_closure_that_zeroes_and_does_not_backpropagate_is_refused(zero, trained):
    net = make_net()
    optimizer = make_sam(net)
    if trained:  # there are gradients to be zeroed
        train(net, optimizer, 1)
    before = weights(net)
    with pytest.raises(RuntimeError, match="closure must backpropagate"):
        optimizer.step(closure_by(net, ZEROING[zero], lambda loss: None))
    assert same_bits(weights(net), before)


@noticed
def test_a_closure_that_backpropagates_only_once_is_refused(zero):
    net, calls = make_net(), []
    optimizer = make_sam(net)

    def backward(loss):
        calls.append(None)
        if len(calls) == 1:
            loss.backward()

    before = weights(net)
    with pytest.raises(RuntimeError, match="closure must backpropagate"):
        optimizer.step(closure_by(net, ZEROING[zero], backward))
    assert same_bits(weights(net), before)


@pytest.mark.parametrize("zero", ZEROING)
def test_the_pair_of_steps_may_zero_in_every_way(zero):
    nets = make_net(norm=False), make_net(norm=False)
    train(nets[0], make_sam(nets[0]), 3)
    optimizer = make_sam(nets[1])
    with NoValues() if zero != "by hand through data" else nullcontext():
        for _ in range(3):
            closure_by(nets[1], ZEROING[zero])()
            optimizer.first_step()
            closure_by(nets[1], ZEROING[zero])()
            optimizer.second_step()
    assert same_bits(weights(nets[0]), weights(nets[1]))


def test_the_pair_of_steps_without_zeroing_between_is_refused():
    net = make_net(norm=False)
    optimizer, before = make_sam(net), weights(net)
    loss_of(net).backward()
    optimizer.first_step()
    loss_of(net).backward()
    with pytest.raises(RuntimeError, match=rf"{REFUSAL}.*first_step\(zero_grad=True\)"):
        optimizer.second_step()
    assert same_bits(weights(net), before)
    assert not optimizer.state_dict()["state"]
    other = make_net(norm=False)
    train(net, optimizer, 2)  # as if nothing had happened
    train(other, make_sam(other), 2)
    assert same_bits(weights(net), weights(other))


@pytest.mark.parametrize("zero", ["first", "both", "neither"])
def test_the_pair_of_steps_without_a_pass_is_refused(zero):
    net = make_net(norm=False)
    optimizer, before = make_sam(net), weights(net)
    with pytest.raises(RuntimeError, match="again before second_step"):
        optimizer.first_step()
    loss_of(net).backward()
    optimizer.first_step(zero_grad=zero == "first")
    if zero == "both":
        optimizer.zero_grad(set_to_none=False)
    with pytest.raises(RuntimeError, match="again before second_step"):
        optimizer.second_step()
    assert same_bits(weights(net), before)


def test_a_closure_that_does_not_backpropagate_is_refused():
    net = make_net()
    optimizer, before = make_sam(net), weights(net)
    loss_of(net).backward()
    with pytest.raises(RuntimeError, match="closure must backpropagate"):
        optimizer.step(lambda: None)
    assert same_bits(weights(net), before)
    assert not optimizer.state_dict()["state"]
