"""``tepui verify``: whether files still hold what was written to them."""

from collections import Counter
from pathlib import Path

from tepui.cli.console import console, table


def verify(path: Path, /) -> None:
    """Check that files hold what was written to them; exit code 1 if not.

    Such as:

        tepui verify runs/digits
        tepui verify results/small
        tepui verify data/cifar-10-batches-py

    Args:
        path: The folder of a run, a store, a comparison, a study or a data set, or one
            file.
    """
    from tepui.cli.folders import check_there
    from tepui.studies.verifying import verify as findings_in

    check_there(path)
    findings, terminal = findings_in(path), console()
    damaged = [finding for finding in findings if finding.damage is not None]
    files, broken = (Counter(f.kind for f in each) for each in (findings, damaged))
    counts = [(kind, str(n), str(broken[kind])) for kind, n in sorted(files.items())]
    numbers = ("files", "damaged")
    terminal.print(table(str(path), ("what", *numbers), counts, numbers=numbers))
    if damaged:
        rows = [(str(finding.file), str(finding.damage)) for finding in damaged]
        terminal.print(table("damaged", ("file", "what is wrong"), rows))
        raise SystemExit(1)
    terminal.print("nothing is damaged")
