"""Draws depend on their key and on nothing else."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from strategies import modest
from tepui.core.seeding import derive, member_seeds, seeded

PRINTABLE = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FFF))
PARTS = st.one_of(st.integers(), PRINTABLE)
KEYS = st.lists(PARTS, min_size=1, max_size=4).map(tuple)


def typed(key):
    return tuple((type(part), part) for part in key)


@modest
@given(KEYS, KEYS)
def test_seeds_are_equal_exactly_when_the_keys_are(first, second):
    assert (derive(*first) == derive(*second)) == (typed(first) == typed(second))


def test_a_number_and_its_text_are_different_keys():
    assert derive(1) != derive("1")
    assert derive(13, "order") != derive("13", "order")


@modest
@given(st.text(), st.text())
def test_joining_two_parts_makes_another_key(first, second):
    assert derive(first, second) != derive(first + second)


def test_derived_seeds_never_change_between_releases():
    # Frozen: a change here would change every run that anybody recorded.
    assert derive(13, "order", 0) == 3291546883011557776
    assert member_seeds(13, 2) == (454873016311041409, 4924759680280691626)


@modest
@given(st.integers(), st.integers(1, 8), st.integers(0, 8))
def test_adding_members_keeps_the_seeds_of_the_others(seed, members, more):
    seeds = member_seeds(seed, members + more)
    assert len(set(seeds)) == len(seeds) == members + more
    assert seeds[:members] == member_seeds(seed, members)


@pytest.mark.parametrize("seeds", [[], [13], [13, 17, 27]])
def test_another_number_of_seeds_than_members_is_refused(seeds):
    with pytest.raises(ValueError, match=r"^seed must name one seed per member \(2\)"):
        member_seeds(seeds, 2)


def test_repeated_seeds_are_refused_and_shown():
    with pytest.raises(ValueError, match=r"^seed must differ.*\(13, 17, 13\)"):
        member_seeds([13, 17, 13], 3)


@pytest.mark.parametrize("seed", ["13", 1.5, [1.2, 2.7], ["13", "17"], None])
def test_what_is_no_integer_is_refused(seed):
    with pytest.raises(ValueError, match=r"^seed must be an integer"):
        member_seeds(seed, 2)


def test_seeded_block_draws_the_same_whatever_came_before():
    draws = []
    for before in (0, 5):
        torch.rand(before)
        with seeded(13, "initialization"):
            draws.append(torch.rand(3))
    assert torch.equal(*draws)
    with seeded(14, "initialization"):
        assert not torch.equal(draws[0], torch.rand(3))


def test_seeded_block_restores_the_global_generator():
    before = torch.get_rng_state()
    with seeded(13, "outer"):
        first = torch.rand(2)
        with seeded(13, "inner"):
            torch.rand(7)
        second = torch.rand(2)
    assert torch.equal(before, torch.get_rng_state())
    with seeded(13, "outer"):
        assert torch.equal(torch.cat([first, second]), torch.rand(4))


def test_seeded_block_restores_the_generator_after_an_exception():
    before = torch.get_rng_state()
    with pytest.raises(ZeroDivisionError), seeded(13):
        torch.rand(3).tolist()[0] / 0
    assert torch.equal(before, torch.get_rng_state())
