"""Write claims.json and the parts of claims.md from the committed results.

Run from anywhere: python docs/make_claims.py
"""

from collections.abc import Sequence
from pathlib import Path

from tepui.papers.claims.evidence import read_evidence
from tepui.papers.claims.judging import Verdict, verdicts
from tepui.papers.claims.tables import document, overview, verdict_tables
from tepui.papers.writing import as_json, write_files

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "research" / "papers.jsonl"


def main():
    found = verdicts(read_evidence(RESULTS))
    page = made((DOCS / "claims.md").read_text(), found)
    contents = {"claims.json": as_json(document(found)), "claims.md": page.encode()}
    write_files(DOCS, contents, overwrite=True)


def made(page: str, found: Sequence[Verdict]) -> str:
    """Return the page with all that is made from results written anew."""
    parts = {"overview": overview(found), "verdicts": verdict_tables(found)}
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
