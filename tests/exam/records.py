"""All that must not change by a bit: runs, measures and records of recipes, as JSON.

Called with a file to write, and with recipes if not all are asked for.
"""

import json
import sys
import tempfile
import warnings
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from unittest.mock import patch

import torch

from exam import measures
from exam.names import command
from exam.runs import digest, runs, trained

FIGURES = 1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15
RECIPES = (
    *(f"sharpbalance/figure{number}" for number in FIGURES),
    *(f"sharpbalance/table{number}" for number in range(1, 9)),
    *(f"sed/figure{number}" for number in (2, 3, 4)),
    *(f"sed/table{number}" for number in (1, 2, 3)),
    "rethinking/figure1",
    *(f"rethinking/table{number}" for number in range(1, 9)),
)
NAMES = "item", "dataset", "architecture", "method", "metric"
ABOUT = (*NAMES, "value", "unit", "n", "sem", "interval", "values", "config_hash")
TIMED = {
    "epoch_minutes",
    "relative_step_time",
    "scoring_minutes",
    "scoring_overhead",
    "total_minutes",
}
NOT_AXES = {*ABOUT, "note", "members", "seeds"}


def made(items, folder, *options):
    """Make recipes at smoke size; return what was written, by recipe."""
    out, store = folder / "made", folder / "store"
    words = ["--size=smoke", "--workers=1", "--device=cpu", "--overwrite"]
    places = [f"--out={out}", f"--store={store}"]
    given = ["reproduce", *items, *words, *places, *options]
    with redirect_stdout(StringIO()), patch.object(sys, "argv", ["tepui", *given]):
        command()(given)
    found = {}
    for file in out.rglob("*.json"):
        document = json.loads(file.read_text())
        if "records" in document:
            found[document["item"]] = document | {"folder": file.parent}
    return found


def axes(record):
    """Return where a record stands beside its names, such as a severity."""
    return {name: value for name, value in record.items() if name not in NOT_AXES}


def exact(document):
    """Return a recipe's numbers as text, by their ids; times have no place in it."""
    return {
        " ".join([*(record[name] for name in NAMES), json.dumps(axes(record))]): [
            record["value"] if value is None else float(value).hex()
            for value in (record["value"], *record["values"])
        ]
        for record in document["records"]
        if record["metric"] not in TIMED
    }


def main(out, *items):
    """Write everything to a file."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    found = {f"run {name}": digest(trained(run)) for name, run in runs().items()}
    found |= {f"measure {name}": value for name, value in measures.exact().items()}
    with tempfile.TemporaryDirectory() as folder:
        for document in made(items or RECIPES, Path(folder)).values():
            found |= exact(document)
    Path(out).write_text(json.dumps(found, indent=0))


if __name__ == "__main__":
    main(*sys.argv[1:])
