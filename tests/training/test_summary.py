"""What a method shows of a run never costs the run its ensemble."""

import math
from dataclasses import dataclass

import pytest

import tepui
from tepui.methods import MemberMethod
from tepui.training.run_folder import RunFolder
from training.cases import assert_same_bits, fitted, mlp, numbers


@dataclass(frozen=True, kw_only=True)
class Showing(MemberMethod):
    """Plain training that shows what it is told to."""

    def gradient(self, member, batch):
        return member.gradient(batch)


@pytest.fixture
def shown(monkeypatch):
    return lambda value: monkeypatch.setattr(
        Showing, "summary", lambda method, states: value
    )


def test_numbers_that_are_not_finite_become_none(tmp_path, shown):
    shown({"overlap": math.nan, "sizes": (1, math.inf), "by": {"a": [-math.inf, 0.5]}})
    run = fitted(numbers(), mlp, method=Showing(), out=tmp_path)
    expected = {"overlap": None, "sizes": [1, None], "by": {"a": [None, 0.5]}}
    assert run.summary == expected
    assert RunFolder(tmp_path).outcome().summary == expected
    again = fitted(numbers(), mlp, method=Showing(), out=tmp_path, resume=True)
    assert again.summary == expected


def test_a_summary_that_cannot_be_written_costs_no_weights(tmp_path, shown):
    how = {"factory": mlp, "method": Showing(), "out": tmp_path}
    shown({"member": object()})
    with pytest.raises(TypeError, match="not JSON serializable"):
        fitted(numbers(), **how)
    saved = tepui.load(tmp_path, mlp).state_dict()
    assert not RunFolder(tmp_path).finished
    shown({"member": 1})
    run = fitted(numbers(), resume=True, **how)
    assert RunFolder(tmp_path).finished
    assert run.summary == {"member": 1}
    assert_same_bits(saved, run)
