"""``tepui claims``: what results say about each claim of the papers."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from tepui.cli.console import console, table

FILES = ("claims.json", "claims.md")


def claims(
    *,
    folder: Annotated[Path, Parameter(name="--from")] = Path("results"),
    out: Path | None = None,
    overwrite: bool = False,
) -> None:
    """Judge each claim of the papers, size by size.

    On real data it is supported or refuted, on stand-ins it transfers or does not.

    Such as:

        tepui claims
        tepui claims --from results --out verdicts
        tepui claims --from results --out verdicts --overwrite

    Args:
        folder: Folder of results, as tepui reproduce wrote it, or a file of JSON lines;
            those of size smoke are left out.
        out: Folder for claims.json, with every comparison and reason, and claims.md.
        overwrite: Replace existing files.
    """
    from tepui.cli.folders import say
    from tepui.papers.claims.evidence import read_evidence
    from tepui.papers.claims.judging import verdicts
    from tepui.papers.claims.tables import COLUMNS, cells, document, markdown, summary
    from tepui.papers.writing import as_json, free_paths, write_files

    if out is not None:
        free_paths(out, FILES, overwrite=overwrite)
    evidence = read_evidence(folder)
    if not evidence.data:
        say(
            f"no results of the papers' figures and tables in {folder} (those of size "
            "smoke do not count): what follows needs none (make some with: tepui "
            "reproduce)"
        )
    judged = verdicts(evidence)
    if out is not None:
        contents = as_json(document(judged)), markdown(judged).encode()
        write_files(out, dict(zip(FILES, contents, strict=True)), overwrite=overwrite)
    heard = [verdict for verdict in judged if verdict.outcome != "no data"]
    rows = [(f"{v.claim.name}: {v.claim.text}", *cells(v)) for v in heard]
    terminal = console()
    terminal.print(table("claims of the papers", ("claim", *COLUMNS), rows))
    terminal.print(summary(judged))
    if out is None:
        terminal.print("reasons, and claims without data: tepui claims --out")
    else:
        terminal.print(f"written to {out}")
