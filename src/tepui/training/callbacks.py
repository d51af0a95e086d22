"""Who is told how a run goes, and may end it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, final

import numpy as np

from tepui.core.checks import require
from tepui.training.history import EpochRecord

if TYPE_CHECKING:
    from tepui.training.run import Run


class Callback:
    """Is told how a run goes; derive from it and override what you need.

    Where only epochs matter, a function of a record will do in its place. Under
    torchrun callbacks live in the process that writes the run folder.
    """

    def on_start(self, config: Mapping[str, Any]) -> None:
        """Be told that training begins, or goes on after an interruption.

        Args:
            config: What was asked for, as ``run.json`` records it, and ``"out"``, the
                run folder (None without one). What looks like a secret is masked.
        """

    def on_epoch(self, record: EpochRecord) -> bool | None:
        """Be told of an epoch.

        Args:
            record: What is known of it.

        Returns:
            True to end the run here, in every process; False or None to go on.
        """

    def on_end(self, run: "Run") -> None:
        """Be told that training is over and all of it saved.

        Args:
            run: What :func:`tepui.fit` is about to return.
        """

    def on_error(self, error: BaseException) -> None:
        """Be told, in the place of the end, that an error or a signal ends the run.

        Args:
            error: What :func:`tepui.fit` is about to raise.
        """


Told = Callback | Callable[[EpochRecord], bool | None]


@final
class Callbacks:
    """All that were given to a run, told in order."""

    def __init__(self, given: Sequence[Told] = ()) -> None:
        self._given = tuple(given)
        self._begun: list[Callback] = []

    def __len__(self) -> int:
        return len(self._given)

    def start(self, config: Mapping[str, Any]) -> None:
        """Tell all that training begins."""
        for callback in self._given:
            if isinstance(callback, Callback):
                self._begun.append(callback)
                callback.on_start(config)

    def epoch(self, record: EpochRecord) -> str | None:
        """Tell all of an epoch; return the name of the first that ends the run."""
        names = [_name(each) for each in self._given if _stops(each, record)]
        return names[0] if names else None

    def end(self, run: "Run") -> None:
        """Tell all that training is over."""
        for callback in self._begun:
            callback.on_end(run)

    @contextmanager
    def told_of_errors(self) -> Iterator[None]:
        """Tell those that were told of a beginning if the block raises."""
        try:
            yield
        except BaseException as error:
            for callback in self._begun:
                try:
                    callback.on_error(error)
                except Exception as another:  # the first one is what went wrong
                    error.add_note(f"{_name(callback)} failed on this: {another!r}")
            raise


def _stops(callback: Told, record: EpochRecord) -> bool:
    told = callback.on_epoch if isinstance(callback, Callback) else callback
    answer = told(record)
    rule = "be True to end the run, False or None to go on"
    known = answer is None or isinstance(answer, bool | np.bool_)
    require(known, f"the answer of callback {_name(callback)}", rule, answer)
    return bool(answer)


def _name(callback: Told) -> str:
    return str(getattr(callback, "__name__", type(callback).__name__))
