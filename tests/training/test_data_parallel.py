"""Ranks that share the batches of a member, against one process and naive twins."""

import copy
import os
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import data_parallel_cases as cases
import tepui
from processes import launched, saved, saved_by
from tepui.core.seeding import derive
from tepui.data.arrays import Arrays, Batch, Division
from tepui.losses import cross_entropy
from tepui.methods import SAM, SED, SharpBalance
from tepui.training.batches import BatchSplit
from tepui.training.exchange import averaged, own_rows
from tepui.training.passes import MemberPasses
from tepui.training.run_folder import RunFolder

WORKER = f"""
import os
import sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
import torch
from torch import distributed
import data_parallel_cases as cases

folder = sys.argv[1]
rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.set_num_threads(1)
distributed.init_process_group(
    "gloo", init_method=f"file://{{folder}}/store", rank=rank, world_size=ranks
)
results = {{
    "close": cases.close(ranks),
    "own": cases.own(ranks),
    "loaded": cases.loaded(ranks),
    "refused": cases.refusals(ranks),
}}
cases.trained(ranks, **cases.STOPPED, out=f"{{folder}}/run", stop_after=1)
torch.save(results, f"{{folder}}/{{rank}}.pt")
distributed.destroy_process_group()
"""
TROUBLE = f"""
import os
import sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
import signal
import torch
from torch import distributed
import data_parallel_cases as cases
from tepui.training import RankLost

rank, folder = int(os.environ["RANK"]), sys.argv[1]
torch.set_num_threads(1)
distributed.init_process_group(
    "gloo", init_method=f"file://{{folder}}/store", rank=rank, world_size=2
)
if rank == 1:
    cases.trouble["signal"] = signal.Signals(SIGNAL)
try:
    cases.trained(2, **cases.TROUBLED, out=f"{{folder}}/run")
    ended = "well"
except (SystemExit, RankLost) as error:
    ended = str(error)
torch.save(ended, f"{{folder}}/{{rank}}.pt")
"""


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module", params=[2, pytest.param(3, marks=pytest.mark.slow)])
def launch(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    return folder, saved(WORKER, folder, request.param)


@pytest.fixture
def ranks(launch):
    return launch[1]


def assert_near(found, expected, case=""):
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        near = torch.allclose(found[name], tensor, rtol=1e-9, atol=1e-9)
        assert near, (case, name, found[name] - tensor)


def assert_equal(found, expected):
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert torch.equal(found[name], tensor), name


def test_ranks_agree_with_one_process_within_rounding(ranks):
    for name, expected in cases.close(1).items():
        for rank in ranks:
            assert_near(rank["close"][name], expected, name)


@pytest.mark.parametrize("kind", ["close", "own"])
def test_ranks_stay_the_same_to_the_bit(ranks, kind):
    for rank in ranks[1:]:
        for name, expected in ranks[0][kind].items():
            assert_equal(rank[kind][name], expected)


def test_a_run_stopped_with_ranks_goes_on_without(launch):
    again = cases.trained(1, **cases.STOPPED, out=launch[0] / "run", resume=True)
    assert_near(again, cases.trained(1, **cases.STOPPED))


def test_what_ranks_cannot_share_is_refused(ranks):
    for rank in ranks:
        processes, careless = rank["refused"]
        assert "data_parallel must divide the number of processes" in processes
        assert "must take gradients by member.gradient" in careless


def test_a_rank_reads_its_own_rows(ranks):
    for name, expected in cases.loaded(1).items():
        all_read = int(expected.pop("read"))
        # Beside them every rank looks at some samples, here all, to know them again,
        # and at a few before training.
        own = len(cases.data()) + (all_read - len(cases.data())) / len(ranks) * 1.2
        for rank in ranks:
            assert int(rank["loaded"][name].pop("read")) < own, name
            assert_near(rank["loaded"][name], expected)


def resumed_near(folder):
    found = cases.trained(1, **cases.TROUBLED, out=folder / "run", resume=True)
    assert_near(found, cases.trained(1, **cases.TROUBLED))


@pytest.mark.slow
def test_a_signal_to_one_rank_stops_all_between_the_same_steps(tmp_path):
    script = TROUBLE.replace("SIGNAL", str(int(signal.SIGTERM)))
    assert saved(script, tmp_path, 2) == ["143", "143"]
    checkpoint = RunFolder(tmp_path / "run").load_checkpoint()
    steps = [checkpoint.member(index)[1]["step"] for index in range(2)]
    assert steps[0] == 10
    assert 0 < steps[1] < 10
    resumed_near(tmp_path)


@pytest.mark.slow
def test_a_rank_that_dies_within_a_step_ends_the_run_of_the_others(tmp_path):
    script = TROUBLE.replace("SIGNAL", str(int(signal.SIGKILL)))
    survivor, lost = launched(2, script, tmp_path)
    assert (survivor.code, lost.code) == (0, -signal.SIGKILL), survivor.err
    (told,) = saved_by(tmp_path, [0])
    assert "the connection between ranks broke" in told
    assert "--resume" in told
    resumed_near(tmp_path)


PAGE = Path(__file__).parents[2] / "docs" / "many_machines.md"
SCRIPTS = [
    script
    for script in re.findall(r"```py\n(.*?)```", PAGE.read_text(), re.S)
    if "init_process_group" in script
]


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.split()[1])
def test_loops_of_the_page_run_in_two_processes(script, tmp_path):
    file = tmp_path / "script.py"
    file.write_text(script)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [*torchrun, "--nproc-per-node=2", str(file)],
        env={**os.environ, "GLOO_SOCKET_IFNAME": "lo"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "rank 0" in done.stdout or "tensor([" in done.stdout


@pytest.mark.slow
def test_the_command_shares_batches(tmp_path):
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    words = ["-m", "tepui", "train", "--method", "SAM", "--members", "2", "--epochs"]
    settings = ["--set", "progress=none", "data_parallel=2"]
    out = ["--out", str(tmp_path / "run")]
    subprocess.run(
        [sys.executable, *torchrun, *words, "1", *settings, *out],
        env={**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"},
        check=True,
        timeout=200,
    )
    config = RunFolder(tmp_path / "run").recorded()["config"]
    assert "data_parallel" not in config
    assert (tmp_path / "run" / "ensemble.safetensors").exists()


class Thread:
    """A rank that is a thread, which meets the others in a list."""

    capturable = False

    def __init__(self, rank, size, met, barrier):
        self.rank, self.size, self._met, self._barrier = rank, size, met, barrier

    def sum_(self, tensor):
        self._met[self.rank] = tensor.clone()
        self._barrier.wait(60)
        tensor.copy_(sum(self._met))
        self._barrier.wait(60)


def together(size, work):
    """Return what each of some threads finds that are ranks of each other."""
    met, barrier = [None] * size, Barrier(size)
    ranks = [Thread(rank, size, met, barrier) for rank in range(size)]
    with ThreadPoolExecutor(size) as pool:
        return [*pool.map(work, ranks)]


@given(st.integers(1, 30), st.integers(1, 6), st.data())
def test_every_row_is_one_ranks_and_kinds_are_kept(samples, ranks, data):
    first = data.draw(st.none() | st.integers(0, samples))
    division = None if first is None else Division(first, 0.3)
    rows = torch.arange(2 * samples).view(2, samples)
    parts = [own_rows(rows, division, rank, ranks) for rank in range(ranks)]
    whole = torch.cat([own for own, _ in parts], dim=1)
    assert torch.equal(whole.sort().values, rows)
    for own, divided in parts:
        assert (divided is None) == (division is None)
        if first is not None:
            assert divided.share == 0.3
            place = torch.arange(own.shape[1]) < divided.rows
            assert torch.equal(own[1] - samples < first, place)


def test_means_are_weighted_by_rows():
    def work(rank):
        value = torch.tensor([1.0, 4.0][rank.rank])
        return averaged(rank, [1, 2][rank.rank], [value, torch.ones(2, dtype=int)])

    for mean, counter in together(2, work):
        torch.testing.assert_close(mean, torch.tensor(3.0))
        assert counter.tolist() == [1, 1]
        assert counter.dtype == torch.int64


def normalized_net():
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 3)
    ).double()
    net.register_buffer("constants", torch.rand(7, dtype=torch.float64))
    net.register_buffer("mask", torch.tensor([True, False]))
    return net


def batch_of(samples):
    stream = torch.Generator().manual_seed(0)
    inputs = torch.randn(samples, 4, generator=stream, dtype=torch.float64)
    return Batch(inputs, torch.arange(samples) % 3, torch.arange(samples))


def member_of(module, ranks=None):
    rate = torch.tensor(0.1, dtype=torch.float64)
    how = {"loss": cross_entropy, "learning_rate": rate, "samples": 8}
    return MemberPasses(module, ranks=ranks, **how)


def naive(module, batch):
    """Loss, gradient and module after a pass over the rows of a rank."""
    module = copy.deepcopy(module)
    loss = cross_entropy(module(batch.inputs), batch.targets).mean()
    return loss, torch.autograd.grad(loss, list(module.parameters())), module


@pytest.mark.parametrize("samples", [12, 13])
def test_gradients_and_statistics_are_means_over_ranks(samples):
    net, batch = normalized_net(), batch_of(samples)

    def work(rank):
        member = member_of(copy.deepcopy(net), rank)
        part = batch.take(slice(rank.rank, None, 3))
        return member.gradient(part), member.module

    parts = [batch.take(slice(number, None, 3)) for number in range(3)]
    shares = [len(part.targets) / samples for part in parts]
    twins = [naive(net, part) for part in parts]
    for (loss, values), module in together(3, work):
        expected = sum(s * t[0] for s, t in zip(shares, twins, strict=True))
        torch.testing.assert_close(loss, expected.detach())
        for number, value in enumerate(values):
            twin = sum(s * t[1][number] for s, t in zip(shares, twins, strict=True))
            torch.testing.assert_close(value, twin)
        for name in ("running_mean", "running_var"):
            each = [getattr(t[2][1], name) for t in twins]
            twin = sum(s * t for s, t in zip(shares, each, strict=True))
            torch.testing.assert_close(getattr(module[1], name), twin)
        assert module[1].num_batches_tracked == 1
        assert torch.equal(module.constants, net.constants)
        assert module.mask.tolist() == [True, False]


class Recorded(nn.Module):
    """Keeps the masks that dropout drew."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3, dtype=torch.float64))
        self.masks = []

    def forward(self, x):
        mask = nn.functional.dropout(torch.ones(len(x), 3).double(), 0.5)
        self.masks.append(mask)
        return mask * self.weight


def test_each_rank_has_dropout_masks_of_its_own_the_same_in_all_passes():
    class Second:
        rank, size = 1, 2

        def sum_(self, tensor):
            """The other rank found the same."""
            tensor.mul_(2)

    net = Recorded()
    member = member_of(net, Second())
    member.noise_seed = 7
    SAM().gradient(member, batch_of(20))
    torch.manual_seed(derive(7, "rank", 1))
    drawn = nn.functional.dropout(torch.ones(20, 3).double(), 0.5)
    assert len(net.masks) == 2
    assert all(torch.equal(mask, drawn) for mask in net.masks)


def test_divided_batches_hold_both_kinds_for_every_rank():
    assert BatchSplit.of(torch.arange(100) < 3, 32).rows == 2
    assert BatchSplit.of(torch.arange(100) < 9, 32, ranks=4).rows == 8


REFUSED = {
    "data_parallel must be 1 with SharpBalance, whose members meet or whose": {
        "method": SharpBalance(stratified=False),
        "data_parallel": 2,
    },
    "data_parallel must be 1 with SED, whose members meet": {
        "method": SED(active=2),
        "data_parallel": 2,
    },
    "data_parallel must be the number of processes that share a batch, 1 here": {
        "data_parallel": 2
    },
    "data_parallel must be positive": {"data_parallel": 0},
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_does_not_go_together_is_refused_by_name(message):
    options = {"method": SAM(), "epochs": 1, "progress": "none", **REFUSED[message]}
    ensemble = tepui.Ensemble.build(lambda: nn.Linear(4, 3), members=2)
    data = Arrays(torch.randn(20, 4), torch.arange(20) % 3)
    with pytest.raises(ValueError, match=message):
        tepui.fit(ensemble, data, **options)


class Sharing(tepui.training.LocalExchange):
    """One process that says it shares its batches with another."""

    sharing = 2

    def data_group(self, device):
        return Thread(0, 2, [None, None], None)


@pytest.mark.parametrize(
    ("method", "batch_size", "message"),
    [
        (SAM(), 3, "batch_size must give two samples to each rank"),
        (SharpBalance(), 7, "batch_size must give two samples to each rank and kind"),
    ],
)
def test_ranks_without_enough_samples_are_refused(method, batch_size, message):
    how = {"method": method, "batch_size": batch_size, "exchange": Sharing()}
    with pytest.raises(ValueError, match=message):
        cases.trained(2, **how)
