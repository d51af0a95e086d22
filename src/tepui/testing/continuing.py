"""What a run promises that goes on from a checkpoint, its own or another run's."""

from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from torch import Tensor

from tepui.core.storage import same_bits
from tepui.methods import Method
from tepui.testing.expecting import Subject
from tepui.testing.small_runs import expect_same_runs, fitted
from tepui.training import EpochRecord, Run
from tepui.training.run_folder import RunFolder


class _KilledError(Exception):
    """Ends a run where a kill would."""


def check_resuming(checked: Subject, method: Method) -> None:
    """Check that a kill leaves no trace."""

    def kill(record: EpochRecord) -> None:
        if record.epoch == 1:
            raise _KilledError

    rule = "end with the same bits after a kill and a resume"
    with TemporaryDirectory() as folder, checked.must_manage(rule):
        out = Path(folder) / "parts"
        with suppress(_KilledError):
            fitted(method, epochs=3, out=out, callbacks=[kill])
        parts = fitted(method, epochs=3, out=out, resume=True)
        whole = fitted(method, epochs=3, out=Path(folder) / "whole")
        _expect_same_ends(checked, rule, whole, parts)


def check_prefix(checked: Subject, method: Method, epochs: int = 4) -> None:
    """Check that a run may begin with the method's prefix."""
    with checked.must_manage("return a method and an epoch from prefix"):
        beginning, alike = method.prefix(epochs)
    fits = isinstance(beginning, Method) and 0 <= alike <= epochs
    rule = f"return a method and an epoch of {epochs} from prefix"
    checked.must(rule, fits, (beginning, alike))
    if beginning == method or alike == 0:
        return
    rule = f"end with the same bits after {alike} epochs of its prefix {beginning}"
    with TemporaryDirectory() as folder, checked.must_manage(rule):
        begun, out = Path(folder) / "begun", Path(folder) / "branch"
        fitted(beginning, epochs=epochs, out=begun, stop_after=alike)
        branch = fitted(method, epochs=epochs, out=out, branch_from=begun)
        whole = fitted(method, epochs=epochs, out=Path(folder) / "whole")
        _expect_same_ends(checked, rule, whole, branch)


def _expect_same_ends(checked: Subject, rule: str, first: Run, second: Run) -> None:
    """Raise unless two runs ended alike, their checkpoints included."""
    expect_same_runs(checked, rule, first, second)
    for one, other in zip(_checkpoint(first), _checkpoint(second), strict=True):
        same = same_bits(one[0], other[0]) and one[1] == other[1]
        checked.must(rule, same, "another checkpoint")


def _checkpoint(run: Run) -> list[tuple[dict[str, Tensor], dict[str, Any]]]:
    """Return tensors and document of every member in a run's last checkpoint."""
    assert run.path is not None
    saved = RunFolder(run.path).load_checkpoint()
    assert saved is not None
    return [saved.member(index) for index in range(len(saved.digests))]
