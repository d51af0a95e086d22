"""Trials in words: what belongs together, and what tells one from another.

Seeds are left out, of members as of data, and so is the first model that the heads of a
repetition share: trials with the same words are repetitions of each other.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import is_dataclass, replace
from typing import Any

from tepui.core.members import lists_of
from tepui.core.spec import arguments_of, written
from tepui.studies.specifications import Trial, samples_in

TITLE = "title"
_REPEATED = ("seed", "seeds", "start")
_PARTS = ("model", "optimizer", "loss", "prune")


def describe(trial: Trial, hidden: Collection[str] = ()) -> dict[str, str]:
    """Return all that a trial is, but its seeds.

    Example:
        >>> from tepui.data import Digits
        >>> from tepui.studies.specifications import Samples
        >>> from tepui.methods import SAM
        >>> from tepui.models import ConvNet
        >>> from tepui.training import TrainingSpec
        >>> how = TrainingSpec(method=SAM(rho=0.2), epochs=2)
        >>> trial = Trial(Samples(Digits), ConvNet, how, seeds=(0, 1))
        >>> describe(trial)["title"], describe(trial, ["rho"])["title"]
        ('Digits ConvNet SAM(rho=0.2)', 'Digits ConvNet SAM()')
    """
    hidden = {*hidden, *_REPEATED}
    samples = next(samples_in(trial.data), None)
    data = type(trial.data) if samples is None else samples.dataset
    method = written(_alike(trial.training.method), hidden)
    words = {TITLE: f"{_name(data)} {_name(trial.model)} {method}"}
    words["members"] = str(len(trial.seeds))
    parts = {**(arguments_of(trial) or {}), **(arguments_of(trial.training) or {})}
    for name, value in parts.items():
        given = arguments_of(_alike(value)) if name in _PARTS else None
        if given is not None:
            words[name] = _name(value)
            words |= {
                f"{name}.{argument}": written(inner, _REPEATED)
                for argument, inner in given.items()
                if argument not in hidden
            }
        elif name not in ("seeds", "training", "method"):
            words[name] = written(value, _REPEATED)
    return words


def labels(described: Sequence[Mapping[str, str]]) -> list[str]:
    """Return a short name for each of some different trials.

    Example:
        >>> labels([{"title": "a", "members": "2"}, {"title": "a", "members": "3"}])
        ['a, members=2', 'a, members=3']
    """
    alike: dict[str, list[Mapping[str, str]]] = {}
    for words in described:
        alike.setdefault(words[TITLE], []).append(words)
    return [
        ", ".join([words[TITLE], *_told(words, alike[words[TITLE]])])
        for words in described
    ]


def _told(words: Mapping[str, str], others: Sequence[Mapping[str, str]]) -> list[str]:
    """Return what is not the same in all others."""
    return [
        f"{name.rpartition('.')[2]}={text}"
        for name, text in words.items()
        if any(other.get(name) != text for other in others)
    ]


def _alike(value: Any) -> Any:
    """Return a value with what it deals to members in one order."""
    if not is_dataclass(value) or isinstance(value, type):
        return value
    dealt = lists_of(value).items()
    return replace(value, **{name: tuple(sorted({*each})) for name, each in dealt})


def _name(value: Any) -> str:
    return written(value).partition("(")[0].rpartition(".")[2]
