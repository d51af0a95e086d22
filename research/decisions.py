"""Compute the tables of ``docs/does_it_help.md`` from ``decisions.jsonl``.

python research/decisions.py
"""

import json
from pathlib import Path

import numpy as np
from recompute import paired

RECORDS = Path(__file__).with_name("decisions.jsonl")
# Label: price in passes, and the arm of each study, less its deep ensemble.
FORTY = {
    "`SharpBalance()`": (1.5, {"002": "late", "003": "late_0.5", "008": "late"}),
    '`SharpBalance(before="sam")`': (2, {"002": "released"}),
    "`SharpBalance(switch_at=0.85)`": (1.15, {"003": "late_0.85"}),
    "`SharpBalance.paper(rho=0.05)`": (2, {"002": "paper"}),
    "`SAM(rho=0.05)`": (2, {"002": "sam"}),
}
# Label: price in passes, and the method as its record names it.
TWELVE = {
    "`SharpBalance()`": (1.5, "SharpBalance(rho=0.05, before='plain')"),
    "`SAM()`": (2, "SAM(rho=0.02)"),
    "`GSAM()`": (2, "GSAM(rho=0.02)"),
    "`SED()`": (1, "SED(weight=0.03, active=3)"),
    "`A2D()`": (2, "A2D(weight=0.003)"),
    "`DivDis()`": (2, "DivDis(weight=0.003, regularizer=0.003)"),
}
PARTS = "clean", "corrupted"


def read():
    """Return the records of all decisions."""
    return [json.loads(line) for line in RECORDS.read_text().splitlines()]


def in_forty_epochs(records):
    """Return the values of each arm and of its deep ensembles, block by block."""
    scores = {
        (line["study"], line["arm"], line["block"]): line
        for line in records
        if "block" in line and line["study"] != "001"
    }
    for label, (price, arms) in FORTY.items():
        pairs = [
            [line[part]["accuracy"] for line in (mine, scores[study, plain, block])]
            for part in PARTS
            for (study, arm, block), mine in scores.items()
            for plain in ["deep_ensemble"]
            if arms.get(study) == arm
        ]
        yield label, price, np.array(pairs).reshape(2, -1, 2)


def in_twelve_epochs(records):
    """Return the same of runs of twelve epochs, the deep ensembles with equal seeds."""
    found = {}
    for line in records:
        if line.get("job") == "cifar10" and "_8_" not in line["file"]:
            values = [line["accuracy"], line["shifted_accuracy"]]
            if len(values[0]) >= len(found.get(line["method"], [[]])[0]):
                found[line["method"]] = values
    plain = np.array(found["DeepEnsemble()"])
    for label, (price, method) in TWELVE.items():
        mine = np.array(found[method])
        yield label, price, np.stack([mine, plain[:, : mine.shape[1]]], axis=-1)


def table(rows):
    """Yield the lines of a table of differences in points."""
    yield "| less the deep ensemble | n | price in passes | clean | corrupted |"
    yield "|---|--:|--:|--:|--:|"
    for label, price, pairs in rows:
        ends = (paired(*100 * each.T)[:3] for each in pairs)
        cells = ["{:+.2f} ({:.2f} to {:.2f})".format(*each) for each in ends]
        shown = " | ".join(cells).replace("-", chr(0x2212))
        yield f"| {label} | {pairs.shape[1]} | {price:g} | {shown} |"


def tables():
    """Return the tables of forty and of twelve epochs."""
    records = read()
    rows = in_forty_epochs(records), in_twelve_epochs(records)
    return ["\n".join(table(each)) for each in rows]


if __name__ == "__main__":
    print(*tables(), sep="\n\n")
