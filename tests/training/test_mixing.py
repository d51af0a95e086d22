"""Runs whose samples are mixed, augmented by member, or compared with views."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tepui.data import (
    Arrays,
    AugMix,
    Batch,
    CutMix,
    HorizontalFlip,
    Mixup,
    Partners,
    PerMember,
    RandomCrop,
)
from tepui.losses import CrossEntropy, jensen_shannon
from tepui.methods import A2D, GSAM, SAM, SED, DeepEnsemble, DivDis, SharpBalance
from tepui.training import TrainingSpec
from tepui.training.batches import source_of
from tepui.training.coupled import SlotRunner
from training.cases import (
    CLASSES,
    Named,
    Plain,
    assert_different,
    assert_same_bits,
    assert_same_runs,
    fitted,
    images,
    linear,
    member_of,
    numbers,
    pairs,
)
from training.test_resume import killed_and_resumed
from training.test_weights import trained_by

CPU = torch.device("cpu")
METHODS = [
    DeepEnsemble(),
    SAM(rho=0.1),
    GSAM(rho=0.1, rho_min=0.05),
    SharpBalance(switch_at=1, select="random"),
    SharpBalance(switch_at=1, select="same", stratified=False),
    SED(active=2, alpha="none", base=SAM(rho=0.1)),
    A2D(weight=0.5),
    DivDis(weight=0.5),
]
MIXED = [[Mixup(0.5)], [HorizontalFlip(), CutMix()]]
WEIGHTS = torch.tensor([0.0, 0.5, 2.0, 3.0]).repeat(6)


def soft(batch, weights=None):
    """The labels of a batch as one mixture, each weighing what its sample does."""
    share = batch.partners.share[:, None]
    own, other = (
        F.one_hot(t, CLASSES) for t in (batch.targets, batch.partners.targets)
    )
    if weights is None:
        return share * own + (1 - share) * other
    own, other = (
        w[:, None] * labels
        for w, labels in (
            (weights[batch.index], own),
            (weights[batch.partners.index], other),
        )
    )
    return share * own + (1 - share) * other


def mixed_batch(data, augment, rows=12):
    source = source_of(data, augment, CPU, 0, None)
    return next(source.batches(torch.arange(rows)[None], 5, 0))


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weighted"])
@pytest.mark.parametrize("how", [{}, {"accumulate": 3}], ids=str)
def test_losses_are_those_of_mixed_labels(weights, how):
    batch = mixed_batch(images(), [Mixup(0.7)])
    module = nn.Sequential(nn.Flatten(), nn.Linear(16, CLASSES)).double()
    batch = batch._replace(inputs=batch.inputs.double())
    member = member_of(module, sample_weights=weights, **how)
    expected = -(soft(batch, weights) * module(batch.inputs).log_softmax(1)).sum(1)
    torch.testing.assert_close(member.losses(batch), expected)
    found, wanted = (
        member.gradient(batch).values,
        torch.autograd.grad(expected.mean(), [*module.parameters()]),
    )
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(
    ("method", "augment"), [*zip(METHODS, 4 * MIXED, strict=True)], ids=repr
)
def test_every_method_trains_on_mixed_samples_and_resumes(tmp_path, method, augment):
    how = {**trained_by(method), "augment": augment, "epochs": 3, "members": 3}
    how |= {"validation": 0.25}
    whole = fitted(images(), **how)
    assert_same_runs(whole, killed_and_resumed(images(), tmp_path, 0, 1, **how))
    assert_same_bits(whole, fitted(Plain(images()), **how))
    assert_different(whole, fitted(images(), **{**how, "augment": augment[:-1]}))


@pytest.mark.parametrize("augment", MIXED, ids=repr)
@pytest.mark.parametrize("method", METHODS[-3:], ids=repr)
def test_slots_mix_as_members_one_by_one(monkeypatch, method, augment):
    how = {**trained_by(method), "augment": augment, "members": 4}
    one_by_one = fitted(images(), **how)
    monkeypatch.setattr("tepui.training.prepare.CoupledRunner", SlotRunner)
    slots = fitted(images(), **how)
    for name, tensor in slots.ensemble.state_dict().items():
        assert torch.equal(tensor + 0, one_by_one.ensemble.state_dict()[name] + 0)


def test_unlabeled_samples_are_not_mixed():
    class Seeing(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, CLASSES)

        def forward(self, x):
            seen.append(x.detach().clone())
            return self.layer(x)

    seen, unlabeled = [], numbers(16, seed=1)
    known = {tuple(row) for row in unlabeled.inputs.tolist()}

    def unlabeled_as_they_are(augment):
        """Which batches hold unlabeled samples and nothing else."""
        seen.clear()
        how = {"method": A2D(), "unlabeled": unlabeled, "augment": augment}
        fitted(numbers(), Seeing, epochs=1, **how)
        return [all(tuple(row) in known for row in batch.tolist()) for batch in seen]

    found = unlabeled_as_they_are([Mixup(1.0)])
    assert found == unlabeled_as_they_are([])
    assert {*found[-4:]} == {True, False}


def test_validation_is_of_samples_as_they_are():
    data, held_out = images(), images(12, seed=4)
    run = fitted(data, augment=[CutMix()], validation=held_out, epochs=2)
    for member, found in zip(
        run.ensemble.members, run.history[-1].validation_loss, strict=True
    ):
        with torch.no_grad():
            outputs = member.eval()(held_out.inputs)
        loss = F.cross_entropy(outputs, held_out.targets)
        assert found == pytest.approx(float(loss), rel=1e-5)


def test_an_epoch_cut_anywhere_has_the_same_batches():
    """So that a run stopped within an epoch goes on with the same mixtures."""
    rows = torch.randperm(24).view(3, 8)
    source = source_of(images(), [RandomCrop(1), Mixup()], CPU, 0, None)
    whole, rest = (list(source.batches(part, 5, 2)) for part in (rows, rows[1:]))
    for one, other in zip(whole[1:], rest, strict=True):
        assert torch.equal(one.inputs, other.inputs)
        assert torch.equal(one.partners.share, other.partners.share)


def test_parts_and_copies_of_a_batch_keep_partners_and_views():
    batch = mixed_batch(images(), [Mixup()], 6)._replace(views=(torch.arange(6),))
    rows = torch.tensor([4, 1])
    part = batch.take(rows)
    assert torch.equal(part.partners.index, batch.partners.index[rows])
    assert torch.equal(part.partners.share, batch.partners.share[rows])
    assert part.views[0].tolist() == [4, 1]
    numbers = torch.arange(3)
    own = Partners(numbers, numbers, numbers)
    doubled = Batch(numbers, numbers, numbers, partners=own).mapped(lambda t: 2 * t)
    assert all(tensor.tolist() == [0, 2, 4] for tensor in doubled.partners)


def test_members_have_policies_of_their_own():
    """Each as if it were that of all, and another member changes none of them."""
    policies = [[Mixup(0.5)], [RandomCrop(1)], []]
    runs = [fitted(images(), augment=policy, members=3) for policy in policies]
    own = fitted(images(), augment=policies, members=3)
    same = fitted(images(), augment=PerMember(*policies), members=3)
    fewer = fitted(images(), augment=policies[:2], members=2)
    assert_same_runs(own, same)
    for number, run in enumerate(runs):
        found = own.ensemble.members[number]
        expected = run.ensemble.members[number].state_dict()
        assert_same_bits(found.state_dict(), expected)
        if number < 2:
            less = fewer.ensemble.members[number].state_dict()
            assert_same_bits(found.state_dict(), less)


def naive_consistency(module, batch, factor):
    """The label's loss of the clean view, and the divergence of all three."""
    views = torch.cat([batch.inputs, *batch.views])
    clean, *others = module(views).chunk(3)
    loss = F.cross_entropy(clean, batch.targets, reduction="none")
    return loss + factor * jensen_shannon(torch.stack([clean, *others]))


@pytest.mark.parametrize("steps", [[AugMix()], [RandomCrop(1), AugMix()]], ids=repr)
def test_the_last_augmentation_makes_the_views(steps):
    data, rows = images(), torch.arange(24)[None]
    source = source_of(data, steps, CPU, 0, None, views=2)
    batch = next(source.batches(rows, 5, 1))
    uniform = source.draws(5, 1, CPU)
    crop, first, second = uniform.split(
        [sum(s.draws for s in steps[:-1]), AugMix().draws, AugMix().draws], 1
    )
    clean = steps[0](data.inputs, crop) if len(steps) > 1 else data.inputs
    assert torch.equal(batch.inputs, clean)
    for view, numbers_of_view in zip(batch.views, (first, second), strict=True):
        assert torch.equal(view, AugMix()(clean, numbers_of_view))
    assert not torch.equal(*batch.views)


@pytest.mark.parametrize(
    "how", [{}, {"accumulate": 2}, {"sample_weights": WEIGHTS}], ids=str
)
def test_consistency_is_part_of_each_loss(how):
    source = source_of(images(), [AugMix()], CPU, 0, None, views=2)
    batch = next(source.batches(torch.arange(12)[None], 5, 0))
    module, loss = nn.Sequential(nn.Flatten(), nn.Linear(16, 3)), CrossEntropy
    member = member_of(module, loss=loss(consistency=12), **how)
    expected = naive_consistency(module, batch, 12)
    if "sample_weights" in how:
        expected = expected * WEIGHTS[:12]
    torch.testing.assert_close(member.losses(batch), expected)
    wanted = torch.autograd.grad(expected.mean(), [*module.parameters()])
    for one, other in zip(member.gradient(batch).values, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


def test_three_views_cost_three_times_as_much():
    how = {"method": SAM(start_at=1), "epochs": 2, "augment": [AugMix()]}
    plain, compared = TrainingSpec(**how), TrainingSpec(**how, **CONSISTENT)
    assert plain.costs(2) == [2, 4]
    assert compared.costs(2) == [6, 12]


CONSISTENT = {"loss": CrossEntropy(consistency=12)}
SCORED = r"augment must not mix samples for {}, which scores each by its own label, got"


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (
            {"method": SharpBalance(), "augment": [Mixup()]},
            "scores each by its own label",
        ),
        ({"method": SED(), "augment": [CutMix()]}, SCORED.format("SED") + " 'CutMix'"),
        (
            {"method": SharpBalance(), "augment": [[], [Mixup()]]},
            SCORED.format("SharpBalance"),
        ),
        (
            {"augment": [Mixup(), RandomCrop(1)]},
            "augment must mix samples once, in its",
        ),
        (
            {"augment": [Mixup(), CutMix()]},
            "augment must mix samples once, in its last",
        ),
        ({"augment": [[], [], []]}, r"one policy per member \(2\), got 3"),
        ({"augment": [[Mixup()]]}, r"one policy per member \(2\), got 1"),
        (
            {**trained_by(A2D()), "augment": [[Mixup()], []]},
            "be one policy for A2D, whose members share each batch, got 'PerMember",
        ),
        (CONSISTENT, "augment must have a step that is no mixing, to make views"),
        ({**CONSISTENT, "augment": [Mixup()]}, "augment must have a step that is no"),
        (
            {**CONSISTENT, "augment": [AugMix()], "method": SharpBalance()},
            "consistency must be 0 for SharpBalance, which compares or scores",
        ),
        (
            {**CONSISTENT, "augment": [AugMix()], **trained_by(DivDis())},
            "consistency must be 0 for DivDis, which compares or scores",
        ),
    ],
)
def test_what_does_not_fit_is_refused_before_training(how, message):
    with pytest.raises(ValueError, match=message):
        fitted(images(), **how)


@pytest.mark.parametrize(
    ("data", "factory", "step", "message"),
    [
        (
            numbers(),
            linear,
            CutMix(),
            r"leave out CutMix.* got 'torch.float32 of shape",
        ),
        (
            pairs(),
            Named,
            Mixup(),
            "only where they are floats.* 'a mapping of tensors'",
        ),
        (
            Arrays(torch.rand(4, 1, 6, 6), torch.zeros(4, 6, 6).long()),
            lambda: nn.Conv2d(1, CLASSES, 1),
            CutMix(),
            "leave out CutMix but for images with one label each",
        ),
        (
            Arrays(torch.randint(9, (24, 4)), torch.arange(24) % CLASSES),
            lambda: nn.Sequential(nn.Embedding(9, 2), nn.Flatten(), nn.Linear(8, 3)),
            Mixup(),
            "only where they are floats, or images of bytes, got 'torch.int64 of shape",
        ),
    ],
)
def test_inputs_without_a_mixture_are_refused(data, factory, step, message):
    with pytest.raises(ValueError, match=message):
        fitted(data, factory, augment=[step])


def test_pixels_are_mixed_with_their_labels():
    data = Arrays(torch.rand(24, 1, 4, 4), torch.randint(CLASSES, (24, 4, 4)))
    factory = lambda: nn.Conv2d(1, CLASSES, 1)  # noqa: E731
    mixed = fitted(data, factory, augment=[Mixup()])
    assert_different(mixed, fitted(data, factory))
