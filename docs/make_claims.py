"""Write claims.json and the parts of claims.md from the results beside them.

Run from anywhere: python docs/make_claims.py
"""

from collections.abc import Sequence
from pathlib import Path

from tepui.papers.claims.as_run import power_as_run
from tepui.papers.claims.designs_table import designs
from tepui.papers.claims.evidence import read_evidence
from tepui.papers.claims.judging import CLAIMS, Verdict, verdicts
from tepui.papers.claims.overview import overview
from tepui.papers.claims.power import simulated
from tepui.papers.claims.runs import whole_runs
from tepui.papers.claims.tables import document, reasons, verdict_tables
from tepui.papers.writing import as_json, write_files

DOCS = Path(__file__).parent


def main():
    found = verdicts(read_evidence(DOCS / "results"))
    page = made((DOCS / "claims.md").read_text(), found)
    contents = {"claims.json": as_json(document(found)), "claims.md": page.encode()}
    write_files(DOCS, contents, overwrite=True)


def made(page: str, found: Sequence[Verdict]) -> str:
    """Return the page with all that is made from results written anew."""
    as_run = power_as_run(CLAIMS, whole_runs(CLAIMS, found))
    parts = {
        "overview": overview(found),
        "verdicts": verdict_tables(found),
        "designs": designs(simulated(CLAIMS), as_run, found),
        "reasons": reasons(found),
    }
    for part, text in parts.items():
        page = filled(page, part, text)
    return page


def filled(page: str, part: str, text: str) -> str:
    """Return a page with one of its parts written anew."""
    begin, end = f"<!-- {part} -->\n", f"<!-- end of {part} -->\n"
    before, rest = page.split(begin)
    return f"{before}{begin}\n{text}\n{end}{rest.split(end)[1]}"


if __name__ == "__main__":
    main()
