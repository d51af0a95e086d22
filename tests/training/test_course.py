"""Which members train when: the price of a course, and members that part late."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import tepui
from tepui.methods import SAM, DeepEnsemble, SharpBalance, SnapshotEnsemble
from tepui.training.batches import index_stream
from tepui.training.spec import Course
from training.cases import (
    Lookahead,
    assert_different,
    assert_same_bits,
    convnet,
    fitted,
    images,
    interrupted_everywhere,
    mlp,
    noisy_net,
    numbers,
)


@given(st.integers(1, 8), st.integers(1, 30), st.data())
def test_a_course_trains_what_it_costs(members, more, data):
    epochs = members + more
    part_at = data.draw(st.integers(0, epochs - 1))
    parting = Course.parting(members, epochs, part_at)
    successive = Course.successive(members, epochs)
    for course in (parting, successive):
        counted = sum(len(course.active(epoch)) for epoch in range(epochs))
        assert course.member_epochs() == counted
        first = data.draw(st.integers(0, epochs))
        rest = sum(len(course.active(epoch)) for epoch in range(first, epochs))
        assert course.member_epochs(first) == rest
        for epoch in range(epochs):
            assert course.active(epoch)[-1] == course.begun(epoch) - 1
    assert parting.member_epochs() == part_at + members * (epochs - part_at)
    assert successive.member_epochs() == epochs
    lengths = [end - first for first, end, _ in successive.stretches]
    assert max(lengths) - min(lengths) <= 1


def test_members_that_part_are_a_loop_and_its_branches():
    """In float64, with momentum, which every branch takes along."""
    data = numbers(24, torch.float64)
    first = tepui.Ensemble.build(lambda: mlp().double(), members=3, seed=3)
    run = fitted(
        data,
        lambda: mlp().double(),
        members=3,
        epochs=5,
        part_at=2,
        optimizer=tepui.SGD(lr=0.05),
        schedule=tepui.Constant(),
    )
    for seed, member in zip(first.seeds, run.ensemble.members, strict=True):
        module = mlp().double()
        module.load_state_dict(first.members[0].state_dict())
        optimizer = torch.optim.SGD(module.parameters(), 0.05, 0.9, weight_decay=5e-4)
        for step in range(5 * 3):
            own = seed if step >= 2 * 3 else first.seeds[0]
            (index,) = index_stream(24, 8, own, step, 1)
            optimizer.zero_grad()
            outputs = module(data.inputs[index])
            nn.functional.cross_entropy(outputs, data.targets[index]).backward()
            optimizer.step()
        for one, other in zip(member.parameters(), module.parameters(), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


METHODS = [DeepEnsemble(), SAM(rho=0.1, start_at=2), Lookahead()]
every_method = pytest.mark.parametrize("method", METHODS, ids=repr)


@every_method
def test_the_first_member_never_parts_and_others_do_not_see_each_other(method):
    how = {"epochs": 4, "method": method, "validation": 0.25}
    alone = fitted(images(), members=1, **how)
    two, three = (fitted(images(), members=n, part_at=2, **how) for n in (2, 3))
    assert_same_bits(alone.ensemble.members[0], three.ensemble.members[0])
    for index in (0, 1):
        assert_same_bits(two.ensemble.members[index], three.ensemble.members[index])
    assert_different(three.ensemble.members[1], three.ensemble.members[2])
    for record, of_one in zip(three.history, alone.history, strict=True):
        assert record.loss[0] == of_one.loss[0]
        assert len({*record.loss}) == (1 if record.epoch < 2 else 3)
        assert len({*record.validation_loss}) == (1 if record.epoch < 2 else 3)


def test_exchanging_members_may_part_before_they_meet():
    how = {"epochs": 4, "members": 3, "method": SharpBalance(rho=0.1, switch_at=3)}
    run = fitted(images(), part_at=2, **how)
    assert len(run.summary) > 0
    with pytest.raises(ValueError, match="part_at must be no later than the first"):
        fitted(images(), part_at=3 + 1, **{**how, "epochs": 6})


@pytest.mark.parametrize("offload", [False, True])
@pytest.mark.parametrize("optimizer", [tepui.SGD(lr=0.05), tepui.AdamW(lr=0.01)])
def test_a_run_that_is_stopped_anywhere_resumes_to_the_same_bits(
    tmp_path, optimizer, offload
):
    how = {"part_at": 1, "epochs": 2, "optimizer": optimizer, "offload": offload}
    interrupted_everywhere(tmp_path, DeepEnsemble(), calls=9, **how)


def test_a_run_that_ends_before_members_part_has_them_alike(tmp_path):
    how = {"epochs": 4, "part_at": 3, "validation": 0.25, "keep": "best"}
    run = fitted(images(), callbacks=[lambda r: r.epoch == 1], out=tmp_path, **how)
    assert_same_bits(*run.ensemble.members)
    assert len({*run.best_epochs}) == 1
    assert_same_bits(run, tepui.load(tmp_path, noisy_net))


def test_members_are_pruned_before_they_part_or_after():
    for share in (0.25, 0.75):
        how = {"prune": tepui.Prune(sparsity=0.5, prune_at=share), "part_at": 2}
        run = fitted(images(), epochs=4, **how)
        weights = [m[1].weight.count_nonzero() for m in run.ensemble.members]
        assert max(weights) < 0.8 * run.ensemble.members[0][1].weight.numel()
    each = tepui.Prune(sparsity=(0.5, 0.7), prune_at=0.25)
    with pytest.raises(ValueError, match="sparsity of prune must be one for all"):
        fitted(images(), epochs=4, part_at=2, prune=each)


@pytest.mark.parametrize(
    ("part_at", "rule"),
    [(0, "be positive"), (4, r"be less than epochs \(4\)"), (1.5, "int")],
)
def test_a_moment_outside_the_run_is_refused(part_at, rule):
    with pytest.raises(ValueError, match=rf"part_at must .*{rule}"):
        fitted(numbers(), mlp, epochs=4, part_at=part_at)


def frozen_first():
    module = mlp()
    module[0].requires_grad_(False)
    return module


@pytest.mark.filterwarnings("ignore:members .* start from identical weights")
@pytest.mark.parametrize(
    "how", [{"part_at": 1}, {"method": SnapshotEnsemble()}], ids=["parting", "snapshot"]
)
def test_members_that_cannot_go_on_from_each_other_are_refused(how):
    message = "member 1 must have the layers of member 0, to go on from it"
    with pytest.raises(ValueError, match=message):
        fitted(images(), (noisy_net, convnet), members=None, epochs=2, **how)
    assert fitted(numbers(), frozen_first, epochs=2, **how).history
    body = nn.Linear(4, 6).requires_grad_(False)

    def shared():
        return nn.Sequential(body, nn.ReLU(), nn.Linear(6, 3))

    assert fitted(numbers(), shared, epochs=2, **how).history
