"""Bad calls of public callables end in words, not in somebody else's exception."""

import inspect
import warnings

import pytest
import torch

import tepui
from faults.calls import (
    DOORS,
    LEFT_OUT,
    bad_call,
    callables,
    called,
    example,
    outcome,
    packages,
)

BLOCKS, EACH = 8, 60
FINE = ("refused", "accepted", "at work")
# What needs files that are not there: their examples are refused.
FILES = ("nowhere", "not in", "not installed")


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    """Examples make files where they stand."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("block", range(BLOCKS))
def test_bad_calls_are_refused_in_our_words(block):
    ends = {seed: outcome(seed) for seed in range(EACH * block, EACH * (block + 1))}
    wrong = {seed: end for seed, end in ends.items() if end not in FINE}
    assert wrong == {}, [(bad_call(seed)[0], bad_call(seed)[2]) for seed in wrong]


def test_the_examples_are_valid():
    invalid = {}
    for path, function in callables().items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                function(**example(path, function))
        except (ImportError, OSError, ValueError) as error:
            invalid[path] = str(error)
    unexpected = {
        path: message
        for path, message in invalid.items()
        if not any(word in message for word in FILES)
    }
    assert unexpected == {}


def test_all_doors_and_public_functions_are_tried():
    assert callables().keys() >= DOORS
    tried = {id(function) for function in callables().values()}
    left_out = {
        f"{package.__name__}.{name}"
        for package in packages()
        for name in getattr(package, "__all__", ())
        if inspect.isfunction(item := getattr(package, name)) and id(item) not in tried
    }
    assert left_out <= LEFT_OUT


def test_an_argument_without_an_example_is_no_reason_to_leave_a_callable_out():
    def function(unheard_of):
        pass

    with pytest.raises(KeyError, match="unheard_of"):
        example("tepui.function", function)


def test_a_foreign_exception_would_be_noticed():
    def foreign(size):
        return torch.zeros(size)

    def unnamed(size):
        tepui.SGD(lr=size)

    assert called(foreign, {"size": -1}, "size").startswith("foreign: RuntimeError")
    assert called(unnamed, {"size": -1}, "size").startswith("unnamed: lr must be")
    assert called(tepui.SGD, {"lr": -1}, "lr") == "refused"
    assert called(tepui.SGD, {"lr": 1}, "lr") == "accepted"
