"""What a page says about the figures and tables of the papers."""

from base64 import b64encode
from collections.abc import Callable

from markupsafe import Markup

from tepui.core.provenance import short_path
from tepui.report.loading import Study
from tepui.report.markup import folded, paragraph, part, table
from tepui.studies.real_data import stand_ins
from tepui.studies.results import Record

MOST = 40  # rows of a table that stands open
# The paper's number and ours as text; the paper's is empty where it prints none.
Numbers = Callable[[Record], tuple[str, str]]


def ours_alone(record: Record) -> tuple[str, str]:
    """Return our number alone.

    Example:
        >>> ours_alone(Record(
        ...     item="a/figure1", dataset="digits", architecture="mlp", method="sam",
        ...     metric="accuracy", value=97.123, unit="percent", n=1,
        ... ))
        ('', '97.12')
    """
    return "", "not defined" if record.value is None else f"{record.value:.4g}"


def study_parts(study: Study, numbers: Numbers) -> list[Markup]:
    """Return a figure or table with its numbers."""
    results = study.results
    about = f"{results.title}. Size: {results.size}. From {short_path(study.path)}."
    if replaced := stand_ins(results.settings, (r.dataset for r in results.records)):
        about += f" Not the paper's data: {replaced}."
    parts = [paragraph(about)]
    if differs := results.settings.get("differs"):
        sentences = map(paragraph, differs)
        parts.append(folded("What differs from the paper", *sentences))
    if study.picture is not None:
        said = f"{results.name}: {results.title}. The numbers stand in the table below."
        encoded = b64encode(study.picture.encode()).decode()
        drawn = f"{results.name}, as drawn when made."
        parts.append(part("picture", encoded, said, drawn))
    return [*parts, _table(study, numbers)]


def _table(study: Study, numbers: Numbers) -> Markup:
    records = study.results.records
    axes = list(dict.fromkeys(name for record in records for name in record.at))
    written = [numbers(record) for record in records]
    headings = ["dataset", "method", *axes, "metric", "ours", "n"]
    printed = any(paper for paper, _ in written)
    if printed:
        headings.insert(-2, "paper")
    rows = []
    for record, (paper, ours) in zip(records, written, strict=True):
        places = [str(record.at.get(axis, "")) for axis in axes]
        row = [record.dataset, record.method, *places, record.metric]
        row += [paper] if printed else []
        rows.append([*row, ours, str(record.n)])
    caption = f"Numbers of {study.results.name}"
    if any("±" in ours for _, ours in written):
        caption += ", ± the standard error of the mean over n"
    whole = table(caption, headings, rows, words=3 + len(axes))
    return folded(f"All {len(rows)} numbers", whole) if len(rows) > MOST else whole
