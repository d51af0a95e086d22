"""Write claims.json and the table of claims.md from the results beside them.

Run from anywhere: python docs/make_claims.py
"""

from pathlib import Path

from tepui.papers.claims.evidence import read_evidence
from tepui.papers.claims.judging import verdicts
from tepui.papers.claims.tables import document, markdown
from tepui.papers.writing import as_json, write_files

BEGIN, END = "<!-- verdicts -->\n", "<!-- end of verdicts -->\n"


def main():
    docs = Path(__file__).parent
    found = verdicts(read_evidence(docs / "results"))
    before, rest = (docs / "claims.md").read_text().split(BEGIN)
    page = f"{before}{BEGIN}\n{markdown(found)}\n{END}{rest.split(END)[1]}"
    contents = {"claims.json": as_json(document(found)), "claims.md": page.encode()}
    write_files(docs, contents, overwrite=True)


if __name__ == "__main__":
    main()
