"""SharpBalance: when it scores, what it builds, which gradient it follows."""

import itertools
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import tepui
from strategies import modest
from tepui.core.seeding import generator
from tepui.data import Batch
from tepui.methods import GSAM, SAM, SharpBalance
from tepui.methods.sets import extreme_samples, sharpness_aware_set
from tepui.sharpness import sample_fisher_trace
from tepui.training.batches import BatchSplit
from tepui.training.run_folder import RunFolder
from training.cases import (
    CLASSES,
    StoppedError,
    assert_same_bits,
    assert_same_runs,
    fitted,
    images,
    member_of,
    mlp,
    numbers,
    one_thread,
    stop_after,
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


def counting(log):
    def score(model, dataset):
        log.append(next(model.parameters()).detach().clone())
        return sample_fisher_trace(model, dataset)

    return score


@pytest.mark.parametrize(
    ("arguments", "epochs"),
    [
        ({"switch_at": 2}, [2]),
        ({"switch_at": 0.5}, [3]),
        ({"switch_at": 0}, [0]),
        ({"switch_at": 2, "off_by_one": True}, [3]),
        ({"switch_at": 2, "refresh_every": 2}, [2, 4]),
    ],
)
def test_members_score_exactly_when_asked(arguments, epochs):
    log = []
    method = SharpBalance(score=counting(log), **arguments)
    fitted(numbers(), mlp, method=method, epochs=6, members=3)
    assert len(log) == 3 * len(epochs)
    assert [e for e in range(6) if method.exchanges_before(e, 6)] == epochs


@pytest.mark.parametrize(
    "method",
    [
        SharpBalance(switch_at=6),
        SharpBalance(switch_at=0.95),
        SharpBalance(switch_at=5, off_by_one=True),
    ],
    ids=repr,
)
def test_members_that_never_score_are_told_of(method):
    log = []
    method = replace(method, score=counting(log))
    with pytest.warns(UserWarning, match="exchanges nothing in a run of 6 epoch"):
        fitted(numbers(), mlp, method=method, epochs=6, members=3)
    assert not log


def test_sets_are_those_of_the_members_scores_at_the_switch(tmp_path):
    data = images()
    scores = []

    def score(model, dataset):
        scores.append(sample_fisher_trace(model, dataset))
        return scores[-1]

    method = SharpBalance(
        score=score, fraction=0.3, switch_at=1, select="highest", leftover="split"
    )
    run = fitted(data, method=method, epochs=2, members=3, out=tmp_path)
    selected = torch.stack(
        [
            extreme_samples(s, 0.3, generator(seed, "publish", 1), highest=True)
            for s, seed in zip(scores, run.ensemble.seeds, strict=True)
        ]
    )
    sets = [sharpness_aware_set(selected, index, "split") for index in range(3)]
    assert run.summary["sizes"] == [int(mask.sum()) for mask in sets]
    assert run.summary["samples"] == len(data)
    both = (sets[0] & sets[1]).sum() / (sets[0] | sets[1]).sum()
    assert run.summary["overlaps"][0][1] == pytest.approx(float(both))
    assert RunFolder(tmp_path).outcome().summary == run.summary


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


def test_full_sets_are_sam_to_the_bit():
    data = numbers()
    method = SharpBalance(rho=0.1, switch_at=0, fraction=1.0)
    assert_same_runs(
        fitted(data, mlp, method=method, epochs=2, members=2),
        fitted(data, mlp, method=SAM(rho=0.1), epochs=2, members=2),
    )


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


@pytest.mark.parametrize("sharp", [False, True])
def test_a_batch_of_one_sample_keeps_its_kind(sharp):
    member, data = member_and_data(1)
    member.state["sharp"] = torch.tensor([sharp])
    batch = whole(data)
    found = SharpBalance(rho=0.5, stratified=False).gradient(member, batch)
    aware = SAM(rho=0.5).gradient(member, batch)
    plain = member.gradient(batch)
    expected, other = (aware, plain) if sharp else (plain, aware)
    for one, same, different in zip(
        found.values, expected.values, other.values, strict=True
    ):
        torch.testing.assert_close(one, same, rtol=0, atol=0)
        assert not torch.equal(one, different)


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


@given(st.integers(8, 60).flatmap(lambda n: st.tuples(st.just(n), st.integers(2, n))))
@modest
def test_no_other_number_of_rows_comes_nearer_to_the_share(sizes):
    samples, batch_size = sizes
    for count in range(1, samples):
        split = BatchSplit.of(torch.arange(samples) < count, batch_size)
        fewest = min(2, batch_size // 2)
        possible = range(
            min(fewest, count), batch_size - min(fewest, samples - count) + 1
        )
        wanted = batch_size * count / samples
        nearest = min(abs(rows - wanted) for rows in possible)
        assert split.rows in possible
        assert abs(split.rows - wanted) == nearest


@pytest.mark.parametrize("stratified", [True, False])
@pytest.mark.parametrize("stopped_after", [0, 1, 2])
def test_killed_and_resumed_is_bit_identical(tmp_path, stratified, stopped_after):
    method = SharpBalance(
        rho=0.1, switch_at=1, refresh_every=2, stratified=stratified, fraction=0.5
    )
    how = {"method": method, "epochs": 4, "members": 3, "batch_size": 7}
    uninterrupted = fitted(images(), **how)
    with pytest.raises(StoppedError):
        fitted(images(), out=tmp_path, callbacks=[stop_after(stopped_after)], **how)
    resumed = fitted(images(), out=tmp_path, resume=True, **how)
    assert_same_runs(uninterrupted, resumed)
    assert uninterrupted.summary == resumed.summary


def test_offloaded_members_get_the_same_sets_and_weights():
    how = {"method": SharpBalance(rho=0.1, switch_at=1), "epochs": 3, "members": 3}
    parallel = fitted(images(), **how)
    offloaded = fitted(images(), offload=True, **how)
    assert_same_runs(parallel, offloaded)
    assert parallel.summary == offloaded.summary


@pytest.mark.parametrize("select", ["random", "same"])
def test_control_rules_give_random_sets(select):
    method = SharpBalance(select=select, fraction=0.25, switch_at=0)
    run = fitted(numbers(40), mlp, method=method, epochs=1, members=3)
    assert run.summary["sizes"] == [10, 10, 10]
    overlap = run.summary["overlaps"][0][1]
    assert overlap == 1 if select == "same" else overlap < 1


@pytest.mark.parametrize("score", ["fisher", "sam_gap", "worst_case", "hessian_trace"])
def test_every_score_trains(score):
    method = SharpBalance(rho=0.1, score=score, switch_at=1)
    run = fitted(images(), method=method, epochs=2, members=2)
    assert sum(run.summary["sizes"]) > 0


def test_presets_follow_paper_and_released_code():
    paper = SharpBalance.paper()
    assert (paper.select, paper.leftover, paper.off_by_one) == (
        "highest",
        "none",
        False,
    )
    for name, fraction, leftover in [
        ("cifar10", 0.4, "boost"),
        ("cifar100", 0.5, "split"),
        ("tiny_imagenet", 0.3, "split"),
    ]:
        code = SharpBalance.released(name)
        assert (code.select, code.leftover) == ("lowest", leftover)
        assert code.fraction == fraction
        assert code.off_by_one
        assert not code.stratified
        assert code.base == SAM(rho=0.05, update_statistics=True)  # as on record
        assert (code.rho, code.before) == (0.2, "sam")
    assert SharpBalance.released("cifar10", stratified=True).stratified
    assert (paper.rho, paper.before) == (0.2, "sam")
    usual = {"stratified": True, "off_by_one": False, "base": SAM()}
    decided = {"rho": 0.05, "before": "plain"}
    assert SharpBalance() == SharpBalance.released(**usual, **decided)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"fraction": 0.0}, r"fraction must lie in \(0, 1\], got 0.0"),
        ({"fraction": 40}, r"fraction must lie in \(0, 1\], got 40"),
        ({"rho": -0.1}, "rho must be non-negative, got -0.1"),
        ({"switch_at": -1}, "switch_at must be a non-negative epoch"),
        ({"switch_at": 1.5}, "switch_at must be a non-negative epoch .* or a share"),
        ({"refresh_every": 0}, "refresh_every must be positive, got 0"),
        ({"select": "high"}, "select must be one of highest, lowest, random, same"),
        ({"leftover": "all"}, "leftover must be one of none, split, boost"),
        ({"score": "fischer"}, "did you mean 'fisher'"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        SharpBalance(**arguments)


def test_switching_past_the_end_is_refused_before_anything_is_written(tmp_path):
    method = SharpBalance(switch_at=9)
    with pytest.raises(ValueError, match=r"switch_at must lie within the run \(3"):
        fitted(numbers(), mlp, method=method, epochs=3, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_unknown_released_data_set_is_named():
    with pytest.raises(ValueError, match="dataset must be one of cifar10, cifar100"):
        SharpBalance.released("mnist")


def test_scores_that_are_not_finite_name_the_member():
    def score(model, dataset):
        scores = torch.zeros(len(dataset))
        scores[:2] = torch.nan
        return scores

    message = "scores of member 0 must be finite, got '2 that are not'"
    with pytest.raises(ValueError, match=message):
        fitted(numbers(), mlp, method=SharpBalance(score=score, switch_at=0), epochs=1)


def test_weights_are_restored_exactly():
    member, data = member_and_data()
    member.state["sharp"] = torch.arange(6) < 3
    before = {k: v.clone() for k, v in member.module.state_dict().items()}
    SharpBalance(rho=0.5, stratified=False).gradient(member, whole(data))
    assert_same_bits(before, dict(member.module.state_dict()))


def test_run_from_python_in_three_lines():
    ensemble = tepui.Ensemble.build(lambda: nn.Linear(4, CLASSES), members=3)
    method = SharpBalance(rho=0.2, fraction=0.4, switch_at=0.5)
    run = tepui.fit(ensemble, numbers(), method=method, epochs=4, progress="none")
    assert len(run.summary["sizes"]) == 3


class Scaled(torch.nn.Module):
    """A parameter of its own has no per-sample rule."""

    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(3))
        self.last = torch.nn.Linear(2, 3)

    def forward(self, x):
        return self.last(x) * self.scale


def test_slow_scoring_is_warned_of_once_in_a_run():
    rows = tepui.data.Arrays(torch.randn(30, 2), torch.arange(30) % 3)
    method = SharpBalance(refresh_every=1)
    ensemble = tepui.Ensemble.build(Scaled, 3)
    with pytest.warns(UserWarning, match="no per-sample rule") as said:
        tepui.fit(ensemble, rows, method=method, epochs=4, progress="none")
    told = [each for each in said if "Fisher trace" in str(each.message)]
    assert len(told) == 1
    assert "the values are as exact" in str(told[0].message)
