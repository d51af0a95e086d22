import copy
import functools

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import tepui
from tepui.data import HorizontalFlip, RandomCrop
from tepui.data.arrays import Batch
from tepui.losses import CrossEntropy, cross_entropy
from tepui.methods import SAM, DeepEnsemble, SharpBalance
from tepui.training.batches import index_stream
from training.cases import (
    Noisy,
    assert_same_bits,
    assert_same_runs,
    convnet,
    copied,
    fitted,
    images,
    linear,
    member_of,
    mlp,
    noisy_net,
    numbers,
)

METHODS = [DeepEnsemble(), SAM(rho=0.1)]
AUGMENT = (RandomCrop(1), HorizontalFlip())
by_method = pytest.mark.parametrize("method", METHODS, ids=repr)
forks = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")


def loop(module, data, seed, *, epochs=4, batch_size=7, label_smoothing=0.0):
    """Train by hand, in the way any torch tutorial does."""
    optimizer = torch.optim.SGD(
        module.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4
    )
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [2, 3], gamma=0.1)
    steps = -(-len(data) // batch_size)
    module.train()
    for epoch in range(epochs):
        for rows in index_stream(len(data), batch_size, seed, epoch * steps, steps):
            optimizer.zero_grad()
            losses = F.cross_entropy(
                module(data.inputs[rows]),
                data.targets[rows],
                reduction="none",
                label_smoothing=label_smoothing,
            )
            losses.mean().backward()
            optimizer.step()
        schedule.step()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_deep_ensemble_equals_a_plain_torch_loop(smoothing):
    ensemble = tepui.Ensemble.build(convnet, members=2, seed=3)
    by_hand, data = copy.deepcopy(ensemble), images(24)
    loss = functools.partial(cross_entropy, label_smoothing=smoothing)
    how = {"method": DeepEnsemble(), "epochs": 4, "batch_size": 7, "loss": loss}
    how["schedule"] = tepui.MultiStep()
    tepui.fit(ensemble, data, device="cpu", progress="none", **how)
    for module, seed in zip(by_hand.members, by_hand.seeds, strict=True):
        loop(module, data, seed, label_smoothing=smoothing)
    assert_same_bits(ensemble, by_hand)


def test_history_holds_the_mean_loss_of_every_epoch():
    ensemble = tepui.Ensemble.build(mlp, members=1)
    data, losses = numbers(8), []
    by_hand = copy.deepcopy(ensemble.members[0])
    optimizer = torch.optim.SGD(by_hand.parameters(), lr=0.1)
    for rows in index_stream(8, 4, ensemble.seeds[0], 0, 4):
        optimizer.zero_grad()
        losses.append(F.cross_entropy(by_hand(data.inputs[rows]), data.targets[rows]))
        losses[-1].backward()
        optimizer.step()
    run = tepui.fit(
        ensemble,
        data,
        method=DeepEnsemble(),
        epochs=2,
        batch_size=4,
        optimizer=tepui.SGD(momentum=0, weight_decay=0),
        schedule=tepui.Constant(),
        device="cpu",
        progress="none",
    )
    expected = torch.stack(losses).detach().view(2, 2).mean(1)
    for record, mean in zip(run.history, expected, strict=True):
        assert record.loss == pytest.approx((float(mean),))
        assert record.validation_loss == ()
        assert record.samples_per_second > 0


@by_method
def test_a_member_alone_equals_the_member_among_five(method):
    data, how = images(), {"method": method, "augment": AUGMENT}
    together = fitted(data, members=5, **how).ensemble
    alone = fitted(data, members=1, seed=[together.seeds[3]], **how).ensemble
    assert_same_bits(alone.members[0], together.members[3])


@pytest.mark.parametrize("augment", [(), AUGMENT], ids=["order", "augmentation"])
def test_members_from_the_same_weights_part_ways(augment):
    module = convnet()
    ensemble = tepui.Ensemble([module, copy.deepcopy(module)], seed=3)
    # With one batch per epoch the order has no effect on a member.
    batch_size = 24 if augment else 8
    how = {"method": DeepEnsemble(), "epochs": 1, "batch_size": batch_size}
    tepui.fit(ensemble, images(), augment=augment, device="cpu", progress="none", **how)
    first, second = (member.classifier.weight for member in ensemble.members)
    assert (first - second).abs().max() > 1e-4


def test_every_step_draws_new_dropout_masks():
    masks = []

    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = linear()

        def forward(self, x):
            mask = torch.rand(x.shape)
            if self.training:
                masks.append(mask)
            return self.layer(x * mask)

    fitted(numbers(16), Masked, members=2, epochs=2)
    assert len(masks) == 8
    assert len({tuple(mask.flatten().tolist()) for mask in masks}) == 8


@forks
def test_workers_change_no_bit():
    data = Noisy(images())
    none, two = (fitted(data, workers=workers) for workers in (0, 2))
    assert_same_runs(none, two)


@by_method
@pytest.mark.parametrize("parts", [2, 3, 100])
def test_accumulation_equals_the_whole_batch_without_batchnorm(method, parts):
    data = numbers(24, torch.float64)
    how = {"method": method, "factory": lambda: mlp().double()}
    whole = fitted(data, **how).ensemble.state_dict()
    split = fitted(data, accumulate=parts, **how).ensemble.state_dict()
    for name, tensor in whole.items():
        torch.testing.assert_close(split[name], tensor, rtol=1e-6, atol=1e-6)


@given(samples=st.integers(1, 40), parts=st.integers(1, 50))
def test_parts_of_a_batch_are_never_single_samples(samples, parts):
    member = member_of(mlp(), accumulate=parts)
    batch = Batch(torch.zeros(samples, 4), torch.arange(samples), torch.arange(samples))
    found = [part.targets for part in member.parts(batch)]
    assert torch.equal(torch.cat(found), torch.arange(samples))
    sizes = [len(part) for part in found]
    assert min(sizes) >= min(2, samples)
    assert max(sizes) <= max(3, -(-samples // parts) + 1)
    assert len(sizes) <= parts


def test_frozen_parameters_stay_and_the_rest_trains():
    def frozen():
        module = noisy_net()
        module[1].requires_grad_(False)
        return module

    ensemble = tepui.Ensemble.build(frozen, members=2, seed=3)
    before = copied(ensemble)
    tepui.fit(ensemble, images(), method=SAM(), epochs=1, device="cpu", progress="none")
    after = ensemble.state_dict()
    assert torch.equal(after["members.0.1.weight"], before["members.0.1.weight"])
    assert not torch.equal(after["members.0.5.weight"], before["members.0.5.weight"])


def test_outputs_are_widened_after_a_bfloat16_pass():
    module = linear()
    member = member_of(module, autocast=torch.bfloat16)
    data = numbers(8)
    batch = tepui.data.arrays.Batch(data.inputs, data.targets, torch.arange(8))
    outputs = member.outputs(batch)
    assert outputs.dtype == torch.float32
    assert torch.equal(outputs, outputs.bfloat16().float())
    assert {value.dtype for value in member.gradient(batch).values} == {torch.float32}


def test_all_passes_of_a_step_see_the_same_masks():
    member, data = member_of(noisy_net()), images(8)
    batch = tepui.data.arrays.Batch(data.inputs, data.targets, torch.arange(8))
    member.noise_seed = 1
    losses = [member.losses(batch) for _ in range(2)]
    losses.append(member.losses_of(member.outputs(batch), batch.targets))
    for again in losses[1:]:
        assert torch.equal(again, losses[0])
    torch.testing.assert_close(member.gradient(batch).loss, losses[0].mean())
    member.noise_seed = 2
    assert not torch.equal(member.losses(batch), losses[0])


def test_label_smoothing_may_differ_by_member():
    mixed = fitted(numbers(), mlp, loss=CrossEntropy((0.0, 0.4))).ensemble
    for index, smoothing in enumerate((0.0, 0.4)):
        alone = fitted(numbers(), mlp, loss=CrossEntropy(smoothing)).ensemble
        assert_same_bits(mixed.members[index], alone.members[index])


@pytest.mark.parametrize("given", [SharpBalance, 3])
def test_a_method_is_given_as_an_instance(given):
    with pytest.raises(ValueError, match=r"method must be a method, such as SAM\(\)"):
        fitted(numbers(), mlp, method=given)
