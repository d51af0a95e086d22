"""``tepui verify``: whether files still hold what was written to them."""

import inspect
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tepui.cli.console import console, table
from tepui.cli.data import in_files

if TYPE_CHECKING:
    from tepui.studies.verifying import Finding


def verify(path: str, /, *, root: Path | None = None) -> None:
    """Check that files hold what was written to them; exit code 1 if not.

    Such as:

        tepui verify runs/digits
        tepui verify CIFAR10
        tepui verify CIFAR10 --root /scratch/data

    Args:
        path: The folder of a run, a store, a comparison, a study or a data set, or one
            file; or the name of a data set, such as CIFAR10, whose parts are then read
            as well.
        root: The data folder, if a data set is named; the one TEPUI_DATA names by
            default.
    """
    from tepui.cli.folders import check_there
    from tepui.data.published import RECORD, located
    from tepui.studies.verifying import verify as findings_in

    sets = in_files()
    if Path(path).exists() or path not in sets:
        check_there(Path(path))
        damaged = _shown(findings_in(path), path)
    else:
        folder = located(path, sets[path].origin, root)
        damaged = _shown(findings_in(folder), f"{path} in {folder}")
        if not (folder / RECORD).exists():
            console().print("placed by hand, without a record of hashes")
        for line in _read(sets[path], root):
            console().print(line)
    if damaged:
        raise SystemExit(1)


def _shown(findings: "Sequence[Finding]", title: str) -> int:
    """Print what was found; return how many files are damaged."""
    from tepui.studies.verifying import FOREIGN

    terminal = console()
    damaged = [finding for finding in findings if finding.damage is not None]
    files, broken = (Counter(f.kind for f in each) for each in (findings, damaged))
    counts = [(kind, str(n), str(broken[kind])) for kind, n in sorted(files.items())]
    numbers = ("files", "damaged")
    terminal.print(table(title, ("what", *numbers), counts, numbers=numbers))
    if damaged:
        rows = [(str(finding.file), str(finding.damage)) for finding in damaged]
        terminal.print(table("damaged", ("file", "what is wrong"), rows))
    else:
        terminal.print("nothing is damaged")
    foreign = [str(finding.file) for finding in findings if finding.kind == FOREIGN]
    if foreign:
        terminal.print(f"{FOREIGN}: {', '.join(foreign)}")
    return len(damaged)


def _read(dataset: Any, root: Path | None) -> Iterator[str]:
    """Open every part of a data set; say how much each holds, or that it is absent."""
    train = inspect.signature(dataset).parameters.get("train")
    if train is None:
        for (kind, severity), copy in dataset(root).items():
            yield f"{kind} {severity}: {len(copy)} samples"
        return
    if train.default:
        try:
            yield f"training part: {len(dataset(root, train=True))} samples"
        except FileNotFoundError as error:
            yield f"training part: absent ({error})"
    yield f"test part: {len(dataset(root, train=False))} samples"
