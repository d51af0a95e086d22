"""SharpBalance: when it scores, what it builds, which gradient it follows."""

import itertools
from dataclasses import replace

import pytest
import torch
from torch import nn

from tepui.data import Batch
from tepui.methods import GSAM, SAM, SharpBalance
from tepui.training.batches import BatchSplit
from training.cases import (
    CLASSES,
    assert_same_runs,
    fitted,
    member_of,
    mlp,
    numbers,
    one_thread,
)

single = pytest.fixture(autouse=True)(one_thread)


def member_and_data(samples=6):
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, CLASSES)).double()
    data = numbers(samples, dtype=torch.float64)
    member = member_of(module, samples=samples)
    return member, data


def whole(data):
    return Batch(data.inputs, data.targets, torch.arange(len(data)))


@pytest.mark.filterwarnings("ignore:SharpBalance exchanges nothing")
def test_before_the_switch_it_is_sam_to_the_bit():
    balance = fitted(
        numbers(),
        mlp,
        method=SharpBalance(rho=0.1, switch_at=2, before="sam"),
        epochs=2,
    )
    sam = fitted(numbers(), mlp, method=SAM(rho=0.1), epochs=2)
    assert_same_runs(balance, sam)


def test_one_member_falls_back_to_sam_and_says_so():
    method = SharpBalance(rho=0.1, switch_at=0)
    with pytest.warns(UserWarning, match="SharpBalance needs other members"):
        alone = fitted(numbers(), mlp, method=method, epochs=2, members=1)
    assert_same_runs(
        alone, fitted(numbers(), mlp, method=SAM(rho=0.1), epochs=2, members=1)
    )


@pytest.mark.parametrize("inside", [*itertools.product([False, True], repeat=4)])
def test_published_split_without_perturbation_is_the_full_batch_gradient(inside):
    member, data = member_and_data(4)
    member.state["sharp"] = torch.tensor(inside)
    method = SharpBalance(rho=0.0, stratified=False)
    loss, values = method.gradient(member, whole(data))
    expected = member.gradient(whole(data))
    torch.testing.assert_close(loss, expected.loss)
    for one, other in zip(values, expected.values, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


def objective_gradient(member, data, sharp):
    """The gradient of the whole objective with both terms by their shares."""
    batch = whole(data)
    share = float(sharp.sum()) / len(sharp)

    def part(mask):
        return Batch(batch.inputs[mask], batch.targets[mask], batch.index[mask])

    aware = SAM(rho=0.0).gradient(member, part(sharp)).values
    plain = member.gradient(part(~sharp)).values
    return [share * a + (1 - share) * p for a, p in zip(aware, plain, strict=True)]


@pytest.mark.parametrize("kind", [[0, 2], [1], [0, 1, 2, 4, 5]])
def test_stratified_batches_are_unbiased_for_the_objective(kind):
    """Enumerate every batch that can be drawn; their mean is the full gradient."""
    member, data = member_and_data(6)
    sharp = torch.zeros(6, dtype=torch.bool)
    sharp[kind] = True
    split = BatchSplit.of(sharp, batch_size=3)
    method = SharpBalance(rho=0.0)
    total, count = [0] * 4, 0
    for first in itertools.combinations(split.first.tolist(), split.rows):
        for second in itertools.combinations(split.second.tolist(), 3 - split.rows):
            index = torch.tensor([*first, *second])
            inputs, targets = data.inputs[index], data.targets[index]
            batch = Batch(inputs, targets, index, split.division)
            values = method.gradient(member, batch).values
            total = [a + b for a, b in zip(total, values, strict=True)]
            count += 1
    for one, other in zip(total, objective_gradient(member, data, sharp), strict=True):
        torch.testing.assert_close(one / count, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("base", [SAM(), GSAM(alpha=0.3)], ids=["SAM", "GSAM"])
@pytest.mark.parametrize(
    ("stratified", "normal"), [(False, [1, 2, 4, 5]), (True, [1, 4])]
)
def test_loss_and_gradient_weigh_their_parts_by_their_shares(base, stratified, normal):
    """A stratified batch may hold other shares than the data, whose count."""
    member, data = member_and_data(6)
    sharp = torch.tensor([True, False, False, True, False, False])
    aware = replace(base, rho=0.3).gradient(
        member, whole(data).take(torch.tensor([0, 3]))
    )
    plain = member.gradient(whole(data).take(torch.tensor(normal)))
    member.state["sharp"] = sharp
    division = BatchSplit.of(sharp, batch_size=4).division if stratified else None
    method = SharpBalance(rho=0.3, base=base, stratified=stratified)
    batch = whole(data).take(torch.tensor([0, 3, *normal]))
    found = method.gradient(member, batch._replace(division=division))
    torch.testing.assert_close(found.loss, aware.loss / 3 + 2 * plain.loss / 3)
    for one, a, p in zip(found.values, aware.values, plain.values, strict=True):
        torch.testing.assert_close(one, a / 3 + 2 * p / 3, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("batch_size", [2, 3, 7, 16])
@pytest.mark.parametrize("count", [1, 5, 14, 15])
def test_splits_keep_both_kinds_in_every_batch(batch_size, count):
    mask = torch.zeros(16, dtype=torch.bool)
    mask[:count] = True
    split = BatchSplit.of(mask, batch_size)
    fewest = 1 if batch_size < 4 else 2
    lowest, highest = min(fewest, count), batch_size - min(fewest, 16 - count)
    assert split.rows == min(max(round(batch_size * count / 16), lowest), highest)
    assert 0 < split.rows < batch_size
    assert split.division == (split.rows, count / 16)
    assert split.first.tolist() + split.second.tolist() == list(range(16))


@pytest.mark.parametrize(
    ("count", "samples", "batch_size", "rows"),
    [(9, 16, 7, 4), (5, 16, 8, 2), (7, 16, 8, 4), (29, 100, 10, 3), (71, 100, 10, 7)],
)
def test_strata_round_to_the_nearest_number_of_rows(count, samples, batch_size, rows):
    assert BatchSplit.of(torch.arange(samples) < count, batch_size).rows == rows


def test_the_usual_values_are_the_decided_ones():
    code = SharpBalance.released("cifar10")
    assert code.base == SAM(rho=0.05, update_statistics=True)  # as on record
    usual = {"stratified": True, "off_by_one": False, "base": SAM()}
    decided = {"rho": 0.05, "before": "plain"}
    assert SharpBalance() == SharpBalance.released(**usual, **decided)
