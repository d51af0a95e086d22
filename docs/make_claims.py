"""Write claims.json and the tables of claims.md from the results beside them.

Run from anywhere: python docs/make_claims.py
"""

from pathlib import Path

from tepui.papers.claims.evidence import read_evidence
from tepui.papers.claims.judging import CLAIMS, verdicts
from tepui.papers.claims.power import simulated
from tepui.papers.claims.tables import designs, document, markdown
from tepui.papers.writing import as_json, write_files

PARTS = ("designs", "verdicts")


def main():
    docs = Path(__file__).parent
    found = verdicts(read_evidence(docs / "results"))
    tables = {"designs": designs(simulated(CLAIMS), found), "verdicts": markdown(found)}
    page = (docs / "claims.md").read_text()
    for part in PARTS:
        page = filled(page, part, tables[part])
    contents = {"claims.json": as_json(document(found)), "claims.md": page.encode()}
    write_files(docs, contents, overwrite=True)


def filled(page: str, part: str, text: str) -> str:
    """Return a page with one of its parts written anew."""
    begin, end = f"<!-- {part} -->\n", f"<!-- end of {part} -->\n"
    before, rest = page.split(begin)
    return f"{before}{begin}\n{text}\n{end}{rest.split(end)[1]}"


if __name__ == "__main__":
    main()
