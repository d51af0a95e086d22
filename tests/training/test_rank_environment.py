"""What is read of torchrun's environment, and what ranks must agree on."""

import pytest

from processes import free_port
from tepui.core.spec import check_same
from tepui.training import LocalExchange, RankLost, exchange_here
from tepui.training.ranks import place_of_environment

NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


@pytest.fixture
def environment(monkeypatch):
    """Set some variables of torchrun's, and only those."""

    def change(**values):
        for name in NAMES:
            monkeypatch.delenv(name, raising=False)
        for name, value in values.items():
            monkeypatch.setenv(name, value)

    change()
    return change


def test_without_torchrun_a_process_is_alone(environment):
    assert place_of_environment() == (0, 1)
    assert isinstance(exchange_here(), LocalExchange)
    environment(RANK="0", WORLD_SIZE="1")
    assert isinstance(exchange_here(), LocalExchange)


def test_ranks_are_read(environment):
    environment(RANK="2", WORLD_SIZE="3")
    assert place_of_environment() == (2, 3)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"RANK": "1"}, "WORLD_SIZE must be a number, and RANK and WORLD_SIZE both"),
        (
            {"WORLD_SIZE": "2"},
            "RANK must be a number, and RANK and WORLD_SIZE both set",
        ),
        ({"RANK": "x", "WORLD_SIZE": "2"}, "RANK must be a number.*got 'x'"),
        (
            {"RANK": "2", "WORLD_SIZE": "2"},
            r"RANK must be below WORLD_SIZE \(2\), got 2",
        ),
        (
            {"RANK": "0", "WORLD_SIZE": "2"},
            "MASTER_ADDR expected",
        ),
        (
            {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "here"},
            "MASTER_PORT expected",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else "",
)
def test_an_environment_set_in_part_is_refused(environment, given, message):
    environment(**given)
    with pytest.raises(ValueError, match=message):
        exchange_here()


def test_ranks_that_never_come_are_not_waited_for(environment, monkeypatch):
    environment(
        RANK="1", WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port())
    )
    monkeypatch.setenv("TEPUI_RANK_TIMEOUT", "1")
    with pytest.raises(RankLost, match=r"not all ranks came within 1 s \(TEPUI_RANK_T"):
        exchange_here()


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"a": {"b": [1, 2]}, "c": None}, "a.b.1 must.* 3 on rank 0 and 2 on rank 2"),
        ({"a": {"b": [1, 3, 4]}, "c": None}, "a.b.2 must.* None on rank 0 and 4 on"),
        ({"a": {"b": [1, 3]}, "c": "x"}, "c must be the same.* None on rank 0 and 'x'"),
        (
            {"a": {}, "c": None},
            "a.b.0 must be the same.* 1 on rank 0 and None on rank 2",
        ),
    ],
)
def test_a_difference_between_ranks_is_named(other, message):
    first = {"a": {"b": [1, 3]}, "c": None}
    check_same([first, {**first}])
    with pytest.raises(ValueError, match=message):
        check_same([first, {**first}, other])
