"""Ranks that share the batches of a member, against one process."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import data_parallel_cases as cases
from processes import launched, saved, saved_by
from tepui.training.run_folder import RunFolder
from tepui.training.shards import tree_sum

WORKER = f"""
import os
import sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
import torch
from torch import distributed
import data_parallel_cases as cases
from tepui.training.ranks import DataRanks

folder = sys.argv[1]
rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
shards = 4 if 4 % ranks == 0 else 2 * ranks
torch.set_num_threads(1)
distributed.init_process_group(
    "gloo", init_method=f"file://{{folder}}/store", rank=rank, world_size=ranks
)
group = DataRanks()
results = {{
    "sums": [
        group.summed(cases.random_rows(rank, rows, length))
        for rows, length in ((1, 1), (1, 10), (2, 7), (3, 101))
    ],
    "exact": cases.exact(ranks, shards),
    "synchronized": cases.synchronized(ranks, shards),
    "loaded": cases.loaded(ranks, shards),
    "mesh": cases.mesh(ranks, shards),
    "refused": cases.refusal(ranks + 1),
}}
cases.trained(ranks, **cases.STOPPED, out=f"{{folder}}/run", stop_after=1)
torch.save(results, f"{{folder}}/{{rank}}.pt")
distributed.destroy_process_group()
"""
# A process of its own too: bits may follow from what else a process has done.
ALONE = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
import torch
import data_parallel_cases as cases

torch.set_num_threads(1)
results = {{
    "exact": cases.exact(1, SHARDS),
    "synchronized": cases.synchronized(1, SHARDS),
    "loaded": cases.loaded(1, SHARDS),
    "mesh": cases.mesh(1, SHARDS),
    "resumed": cases.trained(1, **cases.STOPPED, out="FOLDER/run", resume=True),
    "whole": cases.trained(1, **cases.STOPPED),
}}
torch.save(results, f"{{sys.argv[1]}}/0.pt")
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
SUMS = ((1, 1), (1, 10), (2, 7), (3, 101))


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(
    scope="module",
    params=[2, *(pytest.param(n, marks=pytest.mark.slow) for n in (3, 4))],
)
def launch(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    return folder, saved(WORKER, folder, request.param)


@pytest.fixture
def ranks(launch):
    return launch[1]


@pytest.fixture(scope="module")
def alone(launch, tmp_path_factory):
    folder, ranks = launch
    shards = 4 if 4 % len(ranks) == 0 else 2 * len(ranks)
    script = ALONE.replace("SHARDS", str(shards)).replace("FOLDER", str(folder))
    (found,) = saved(script, tmp_path_factory.mktemp("alone"), 1)
    return found


@pytest.mark.slow
def test_sums_over_ranks_are_the_trees(ranks):
    for number, (rows, length) in enumerate(SUMS):
        terms = torch.cat(
            [cases.random_rows(rank, rows, length) for rank in range(len(ranks))]
        )
        expected = tree_sum(lambda row, terms=terms: terms[row], range(len(terms)))
        for rank in ranks:
            assert torch.equal(rank["sums"][number], expected)


@pytest.mark.slow
def test_any_number_of_ranks_gives_the_bits_of_one_process(ranks, alone):
    for name, expected in alone["exact"].items():
        for rank in ranks:
            found = rank["exact"][name]
            assert found.keys() == expected.keys()
            for key, tensor in expected.items():
                assert torch.equal(found[key], tensor), (name, key)


def test_synchronized_ranks_agree_with_one_process_up_to_rounding(ranks, alone):
    for name, expected in alone["synchronized"].items():
        for key, tensor in expected.items():
            first = ranks[0]["synchronized"][name][key]
            torch.testing.assert_close(first, tensor, rtol=1e-9, atol=1e-9)
            for rank in ranks[1:]:
                assert torch.equal(rank["synchronized"][name][key], first), name


def test_a_mesh_of_members_and_data_gives_the_bits_of_one_process(ranks, alone):
    for rank in ranks:
        for key, tensor in alone["mesh"].items():
            assert torch.equal(rank["mesh"][key], tensor), key


def test_a_run_stopped_with_ranks_goes_on_without_to_the_same_bits(alone):
    for key, tensor in alone["whole"].items():
        assert torch.equal(alone["resumed"][key], tensor), key


def test_ranks_that_do_not_fit_the_processes_are_refused(ranks):
    for rank in ranks:
        assert "data_parallel must divide the number of processes" in rank["refused"]


def test_a_rank_reads_the_samples_of_its_own_shards(ranks, alone):
    for name, expected in alone["loaded"].items():
        all_read = int(expected["read"])
        read = [int(rank["loaded"][name]["read"]) for rank in ranks]
        for rank in ranks:
            for key in expected.keys() - {"read"}:
                found = rank["loaded"][name][key]
                assert torch.equal(found, expected[key]), (name, key)
        if name == "undivided":
            # Only the writer looks at two samples after training.
            assert read == [all_read, *[all_read - 2] * (len(ranks) - 1)]
        else:
            # Beside its shards every rank looks at some samples, here all, to know
            # them again, and at a few before training.
            looked = len(cases.data())
            own = (all_read - looked) * (1 / len(ranks) + 0.1)
            assert max(read) < looked + own, (name, read)


def resumed_bits(folder):
    found = cases.trained(1, **cases.TROUBLED, out=folder / "run", resume=True)
    for key, tensor in cases.trained(1, **cases.TROUBLED).items():
        assert torch.equal(found[key], tensor), key


@pytest.mark.slow
def test_a_signal_to_one_rank_stops_all_between_the_same_steps(tmp_path):
    script = TROUBLE.replace("SIGNAL", str(int(signal.SIGTERM)))
    assert saved(script, tmp_path, 2) == ["143", "143"]
    checkpoint = RunFolder(tmp_path / "run").load_checkpoint()
    steps = [checkpoint.member(index)[1]["step"] for index in range(2)]
    assert steps[0] == 10
    assert 0 < steps[1] < 10
    resumed_bits(tmp_path)


@pytest.mark.slow
def test_a_rank_that_dies_within_a_step_ends_the_run_of_the_others(tmp_path):
    script = TROUBLE.replace("SIGNAL", str(int(signal.SIGKILL)))
    survivor, lost = launched(2, script, tmp_path)
    assert (survivor.code, lost.code) == (0, -signal.SIGKILL), survivor.err
    (told,) = saved_by(tmp_path, [0])
    assert "the connection between ranks broke" in told
    assert "--resume" in told
    resumed_bits(tmp_path)


PAGE = Path(__file__).parents[2] / "docs" / "ranks.md"
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


WORDS = {
    "train": ["train", "--method", "SAM"],
    "compare": ["compare", "--methods", "SAM"],
}


@pytest.mark.slow
@pytest.mark.parametrize("verb", WORDS)
def test_commands_give_the_bits_of_one_process(tmp_path, verb):
    words = ["-m", "tepui", *WORDS[verb], "--members", "2", "--epochs", "1"]
    quiet = ["--set", "progress=none"]
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    commands = {
        "many": [*torchrun, *words, *quiet, "data_parallel=2"],
        "one": [*words, *quiet, "virtual_shards=2"],
    }
    for name, command in commands.items():
        subprocess.run(
            [sys.executable, *command, "--out", str(tmp_path / name)],
            env={**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"},
            check=True,
            timeout=200,
        )
    one, many = (
        next((tmp_path / name).rglob("ensemble.safetensors"))
        for name in ("one", "many")
    )
    assert one.read_bytes() == many.read_bytes()
