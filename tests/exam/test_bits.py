"""Twelve small runs come to the same bits however they are carried out."""

import json
from functools import partial

import pytest
import torch

from exam.runs import digest, runs, trained
from processes import assert_all_well, launched

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
NAMES = list(runs())
# Without these a run is refused or is no longer one of the kind.
NEEDED = {"method", "unlabeled", "model", "data", "members", "validation"}

over_all = pytest.mark.parametrize("name", NAMES)


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def digests():
    return {name: digest(trained(run)) for name, run in runs().items()}


def again(name, **how):
    return digest(trained(runs()[name], **how))


def test_twelve_runs_end_in_twelve_places(digests):
    assert len(set(digests.values())) == len(NAMES) == 12


@over_all
def test_again_in_float32_by_name(name, digests):
    assert again(name, precision="float32") == digests[name]


@over_all
def test_bfloat16_repeats_and_is_another_precision(name, digests):
    first = again(name, precision="bfloat16")
    assert first == again(name, precision="bfloat16") != digests[name]


@over_all
def test_stopped_twice_and_gone_on_with(name, digests, tmp_path):
    steps = [{"stop_after": 1}, {"stop_after": 2}, {}]
    ends = [again(name, out=tmp_path / "run", resume=True, **how) for how in steps]
    assert ends[-1] == digests[name]
    stops_early = name == "shared features"
    assert len(set(ends)) == (2 if stops_early else 3)


@over_all
def test_loaded_by_workers(name, digests):
    run = again(name, loaded=True, workers=2)
    assert run == again(name, loaded=True)
    assert (run == digests[name]) == (
        name != "SAM"
    )  # augmented before it is normalized


def test_two_ranks(digests, tmp_path):
    script = "import sys; from exam.runs import rank; rank(sys.argv[1])"
    assert_all_well(launched(2, script, tmp_path))
    for number in range(2):
        found = json.loads((tmp_path / f"{number}.json").read_text())
        assert found == digests


def without_one(value, path=""):
    """Yield a run, or a part of it, as often as it has options, each time less one."""
    if isinstance(value, partial):
        for rest, left_out in without_one(value.keywords, path):
            yield partial(value.func, *value.args, **rest), left_out
    elif isinstance(value, list):
        for number, part in enumerate(value):
            yield value[:number] + value[number + 1 :], f"{path}.{number}"
            for other, left_out in without_one(part, f"{path}.{number}"):
                yield [*value[:number], other, *value[number + 1 :]], left_out
    elif isinstance(value, dict):
        for name, part in value.items():
            if name not in NEEDED:
                yield {k: v for k, v in value.items() if k != name}, f"{path}.{name}"
            if name != "model":
                for other, left_out in without_one(part, f"{path}.{name}"):
                    yield {**value, name: other}, left_out


def digest_or_refusal(run):
    try:
        return digest(trained(run))
    except ValueError:
        return "refused: others need what was left out"


@over_all
def test_every_option_of_a_run_arrives(name, digests):
    others = {
        left_out: digest_or_refusal(run) for run, left_out in without_one(runs()[name])
    }
    assert [left_out for left_out in others if others[left_out] == digests[name]] == []
