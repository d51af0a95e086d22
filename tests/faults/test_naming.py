"""Nothing but listed classes is ever imported or built from a configuration."""

import sys
from collections import Counter
from pathlib import Path

import pytest

from faults import naming
from faults.naming import CANARY, OPTIONS, WAYS, Attempt, attempt, outcome
from tepui.core.names import PLACES

SMALL = 5 * len(WAYS)


@pytest.mark.parametrize("seed", range(SMALL))
def test_an_attempt_is_refused_or_names_a_listed_class(seed, tmp_path):
    assert outcome(seed, tmp_path) in ("refused", "accepted"), attempt(seed)


@pytest.mark.slow
def test_two_thousand_attempts_are_refused_or_name_listed_classes(tmp_path):
    found = Counter()
    for seed in range(2000):
        folder = tmp_path / str(seed)
        folder.mkdir()
        found[outcome(seed, folder)] += 1
    assert found.keys() == {"refused", "accepted"}


def test_two_thousand_attempts_differ():
    attempts = {attempt(seed) for seed in range(3000)}
    assert len(attempts) > 2000
    assert {tried.words[0] for tried in attempts} == OPTIONS.keys()


def test_a_breach_would_be_noticed(tmp_path, monkeypatch):
    """The table is opened on purpose: what is let in is imported and built."""
    tried = Attempt(("train", "--config", "options.yaml"), "model: Net", "Net")
    monkeypatch.setattr(naming, "attempt", lambda seed: tried)
    monkeypatch.setattr(sys, "modules", sys.modules.copy())
    assert outcome(0, tmp_path) == "refused"
    monkeypatch.setitem(PLACES["model"], "Net", CANARY)
    assert outcome(0, tmp_path) == "breach: the canary was imported"


def test_a_file_that_is_written_would_be_noticed(tmp_path, monkeypatch):
    def written(words):
        Path("new").write_text("")

    monkeypatch.setattr(naming, "read_all", written)
    assert outcome(0, tmp_path).startswith("breach: ['open")
