"""Write into every recipe's docstring what was measured, from docs/results.

The paragraph stands below the title and begins with "Measured". A recipe without
committed results has none.

Run from anywhere: python docs/make_recipe_headers.py
"""

import importlib
import inspect
import textwrap
from pathlib import Path

from tepui.papers.recipe import names
from tepui.studies import read_results

RESULTS = Path(__file__).parent / "results" / "small"
# What a recipe is about: the first of these that it has.
HEADLINES = (
    "beta",
    "chosen_rho",
    "unique_predictions",
    "auroc",
    "accuracy",
    "ensemble_accuracy",
    "ece",
    "rank_correlation",
    "scoring_overhead",
    "pds",
    "diversity",
    "mean_absolute_change",
)
# Coordinates that all numbers of a paragraph share.
FIXED = {"panel", "curve", "rho", "corruption", "divergent", "score"}
SHOWN = 5  # numbers of a paragraph


def main():
    for name in names():
        file = Path(inspect.getfile(module_of(name)))
        source = file.read_text()
        written = with_measured(source, measured(name))
        if written != source:
            file.write_text(written)


def module_of(name):
    return importlib.import_module(f"tepui.papers.{name.replace('/', '.')}")


def measured(name):
    """Return what a docstring says of committed results; None without any."""
    folder = RESULTS / name
    if not folder.is_dir():
        return None
    found = read_results(folder)
    shown = headline(found.records)
    first = shown[0]
    numbers = ", ".join(f"{label(each, shown)} {value(each)}" for each in shown)
    places = found.environment.get("trained_on", [found.environment])
    counts = [str(n) for n in sorted({each.n for each in shown} - {0})]
    about = [f"n = {'/'.join(counts)}"] if counts else []
    about += [f"{each['hardware']}, torch {each['torch']}" for each in places]
    unit = "" if first.unit in ("none", "fraction", "ratio", "count") else first.unit
    what = f"{first.metric.replace('_', ' ')} on {first.dataset}"
    stand_in = ", with stand-ins"
    if first.dataset == "random_quadratic":
        stand_in = ""
    text = f"Measured at small size{stand_in} ({'; '.join(about)}): {what}: {numbers} "
    return textwrap.fill(f"{f'{text}{unit}'.strip()}.", 88, break_on_hyphens=False)


def headline(records):
    """Return a few numbers of the metric that matters most, one for each method."""
    metric = next(m for m in HEADLINES if any(r.metric == m for r in records))
    first = next(record for record in records if record.metric == metric)
    same = [
        each
        for each in records
        if (each.metric, each.item) == (metric, first.item)
        and each.dataset == first.dataset
        and all(each.at.get(key) == first.at.get(key) for key in FIXED & {*first.at})
    ]
    methods = {each.method for each in same}
    if len(methods) == 1:
        return same[:SHOWN]
    return [each for each in same if each.at == first.at][:SHOWN]


def label(record, shown):
    """Return what tells a number from those beside it."""
    if len({each.method for each in shown}) > 1:
        return record.method
    keys = [
        key for key in record.at if len({str(each.at.get(key)) for each in shown}) > 1
    ]
    return f"{keys[0]}={record.at[keys[0]]}" if keys else record.method


def value(record):
    if record.value is None:
        return "not defined"
    error = "" if record.sem is None else f" ± {record.sem:.2g}"
    return f"{record.value:.4g}{error}"


def with_measured(source, text):
    """Return a module's source with a paragraph below the title of its docstring."""
    inside = source[3 : source.index('"""', 3)].strip()
    paragraphs = [
        part for part in inside.split("\n\n") if not part.startswith("Measured")
    ]
    title, *rest = paragraphs
    parts = [title, *([text] if text else []), *rest]
    body = "\n\n".join(parts)
    closing = "" if len(parts) == 1 else "\n"
    return f'"""{body}{closing}"""' + source[source.index('"""', 3) + 3 :]


if __name__ == "__main__":
    main()
