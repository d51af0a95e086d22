"""Processes that share the batches of an evaluation find what one alone finds."""

import re

import pytest
import torch

from evaluation.shared_cases import CASES, DIFFERENCES, SIZE, evaluated, sizes
from processes import saved

LOGITS = "evaluations/clean.safetensors"

SCRIPT = "import sys; from evaluation.shared_cases import rank; rank(sys.argv[1])"


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def check(folder, size):
    found = saved(SCRIPT, folder, size)
    for name, case in CASES.items():
        alone, batches = evaluated(folder / "alone" / name, **case)
        assert all(each[name][0] == alone for each in found)
        # Everyone first looks at one sample, to see what outputs there are.
        batches, shares = batches - 1, [each[name][1] - 1 for each in found]
        by_set = [-(-samples // SIZE) for samples in sizes(case["samples"])]
        assert sum(shares) == batches == sum(by_set)
        assert max(shares) <= sum(-(-count // size) for count in by_set)
        files = [folder / name / LOGITS, folder / "alone" / name / LOGITS]
        assert files[0].read_bytes() == files[1].read_bytes()
    return found


def test_two_processes_find_the_same_and_speak_of_what_differs(tmp_path):
    first, second = check(tmp_path, 2)
    rule = r"ValueError: {} must be the same on all ranks, got {} on rank 0 and {} on"
    for name, key, value in (
        ("other weights", "ensemble", r"'\w+'"),
        *((name, name, ".*") for name in DIFFERENCES),
    ):
        assert re.match(rule.format(key, value, value), first[name])
        assert first[name] == second[name]
    assert (first["warned"], second["warned"]) == (1, 0)
    assert second["broken"].startswith("OSError: cannot be read")
    told = "RankLost: rank 1 left the run with OSError: cannot be read"
    assert first["broken"].startswith(told)


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 3, 5])
def test_any_number_of_processes_finds_the_same(tmp_path, size):
    check(tmp_path, size)
