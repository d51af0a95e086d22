"""Nothing but listed classes is ever imported or built from a configuration."""

import sys
from collections import Counter
from pathlib import Path

import pytest

from faults import naming
from faults.naming import CANARY, COMMANDS, WAYS, Attempt, attempt, outcome
from tepui.cli import main

SMALL = 2 * len(WAYS)


@pytest.mark.parametrize("seed", range(SMALL))
def test_an_attempt_is_refused_or_names_a_listed_class(seed, tmp_path):
    assert outcome(seed, tmp_path) in ("refused", "accepted"), attempt(seed)


def test_two_thousand_attempts_differ():
    attempts = [attempt(seed) for seed in range(3000)]
    assert len({(a.words, str(a.files), str(a.environment)) for a in attempts}) > 2000
    assert Counter(a.words[0] for a in attempts).keys() == main.COMMANDS.keys()
    assert COMMANDS.keys() == main.COMMANDS.keys()


def test_a_breach_would_be_noticed(tmp_path, monkeypatch):
    """The list is opened on purpose: what is let in is imported and built."""
    path, text = f"{CANARY}.Net", f"model: {CANARY}.Net"
    tried = Attempt(("train", "--config", "c.yaml"), {"c.yaml": text}, path)
    monkeypatch.setattr(naming, "attempt", lambda seed: tried)
    monkeypatch.setattr(sys, "modules", sys.modules.copy())
    assert outcome(0, tmp_path) == "refused"
    monkeypatch.setattr(main, "named_by_user", lambda words: {path: object})
    assert outcome(0, tmp_path).startswith(f"breach: imported ['{path}'")
    for name in [name for name in sys.modules if name.startswith(CANARY)]:
        del sys.modules[name]


def test_a_file_that_is_written_would_be_noticed(tmp_path, monkeypatch):
    def written(words):
        Path("new").write_text("")

    monkeypatch.setattr(naming, "read", written)
    assert outcome(0, tmp_path).startswith("breach: ['open")
