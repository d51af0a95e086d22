"""Stopping a run between two steps when a signal asks for it."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import final

from tepui.training.data_parallel import StepRanks

# Asking ranks costs as much as a small message, and waits for a GPU.
STEPS_BETWEEN_QUESTIONS = 20


class Interruption:
    """Whether SIGINT or SIGTERM asked the run to stop."""

    def __init__(self) -> None:
        self.signal: int | None = None

    @property
    def requested(self) -> bool:
        """Whether the run should stop after this step."""
        return self.signal is not None

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Note signals inside the block; a second one acts as it always did.

        Outside the main thread, where Python cannot handle signals, nothing changes.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.getsignal(number) for number in numbers}

        def note(number: int, _frame: FrameType | None) -> None:
            self.signal = number
            signal.signal(number, before[signal.Signals(number)])

        for number in numbers:
            signal.signal(number, note)
        try:
            yield
        finally:
            for number in numbers:
                signal.signal(number, before[number])

    def leave(self) -> None:
        """End the program as the signal would have, here or in another process."""
        if self.signal == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + (self.signal or signal.SIGTERM))


@final
class Stopping:
    """Whether to stop after this step, answered alike to ranks that share it.

    They ask equally often, and one of them may be the only one that saw a signal.
    """

    def __init__(self, interruption: Interruption, ranks: StepRanks | None) -> None:
        self._interruption = interruption
        self._ranks = ranks
        self._asked = 0
        self._agreed = False

    def __call__(self) -> bool:
        """Return whether all stop here."""
        if self._ranks is None:
            return self._interruption.requested
        self._asked += 1
        if not self._agreed and self._asked % STEPS_BETWEEN_QUESTIONS == 0:
            self._agreed = self._ranks.agreed(self._interruption.requested)
        return self._agreed
