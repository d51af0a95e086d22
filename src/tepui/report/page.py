"""Runs of any kind as one self-contained page.

The page holds no script, and its policy lets a browser fetch nothing.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path

from tepui.core.provenance import short_path, with_short_paths
from tepui.core.replacing import write_bytes
from tepui.core.storage import reading
from tepui.report.comparison import Comparison
from tepui.report.cost import epochs_of
from tepui.report.loading import LoadedReports, ReportSource
from tepui.report.markup import paragraph, part, templates
from tepui.report.papers import Numbers, ours_alone, study_parts
from tepui.report.sections import QUESTIONS, SECTIONS, Parts
from tepui.report.wording import TIMES, with_unit

PAGE = "report.html"
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


@dataclass(frozen=True)
class Section:
    """A part of the page with a heading."""

    title: str  # the heading
    anchor: str  # what links to it
    parts: Parts
    folded: bool = True  # whether it opens only when its heading is chosen


def write_report(
    reports: LoadedReports,
    folder: str | Path,
    numbers: Numbers = ours_alone,
) -> Path:
    """Write ``report.html``, a page that needs no other file.

    Args:
        reports: What to show, from :func:`tepui.report.load_reports`.
        folder: Where.
        numbers: Writes a study's record as the paper's number and ours.

    Returns:
        The page.
    """
    page = Path(folder) / PAGE
    write_bytes(page, page_text(reports, numbers).encode())
    return page


def page_text(reports: LoadedReports, numbers: Numbers = ours_alone) -> str:
    """Return a page as text; every string in it is escaped."""
    first, *others = reports.sources
    versions = {str(source.environment.get("tepui", "")) for source in reports.sources}
    page = (
        templates()
        .get_template("page.html.j2")
        .render(
            title=reports.title,
            command="" if others else _command(first),
            facts=[] if reports.comparison is None else _facts(reports.comparison),
            version=", ".join(sorted(versions - {""})),
            policy=POLICY,
            sections=sections_of(reports, numbers),
        )
    )
    return f"{page}\n"


def sections_of(reports: LoadedReports, numbers: Numbers = ours_alone) -> list[Section]:
    """Return all sections of a page in order; those without data are left out."""
    sections = []
    if (found := reports.comparison) is not None:
        first = found.methods[0].sources[0]
        with reading(first, "evaluations with all of their fields"):
            for title, make in SECTIONS.items():
                if parts := make(found):
                    anchor = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
                    folded = title not in QUESTIONS
                    sections.append(Section(title, anchor, parts, folded))
    for number, study in enumerate(reports.studies, 1):
        title, parts = study.results.name, study_parts(study, numbers)
        title += f" ({study.results.size})"
        sections.append(Section(title, f"study-{number}", parts, folded=False))
    sources = [part for source in reports.sources for part in _environment(source)]
    return [*sections, Section("Reproduce", "reproduce", sources)]


def _facts(comparison: Comparison) -> list[str]:
    methods = comparison.methods

    def shared(name: str, unit: str = "") -> str:
        first, *others = {str(method.training.get(name)) for method in methods}
        return "" if others or first == "None" else with_unit(first, unit)

    counts = sorted({len(method.ensembles) for method in methods})
    ensembles = " to ".join(map(str, dict.fromkeys((counts[0], counts[-1]))))
    members = f"{known} {TIMES} " if (known := shared("members", "member")) else ""
    data = shared("data")  # as a person wrote them, if it says more than their name
    each = " per method" if len(methods) > 1 else ""
    epochs = {method.label: epochs_of(method) for method in methods}
    said = ", ".join(f"{label} {count}" for label, count in epochs.items() if count)
    one, *others = {*epochs.values()}
    length = f"epochs: {said}" if others else with_unit(one, "epoch") if one else ""
    price = f" at equal {known}" if each and (known := shared("equal")) else ""
    best = any(trained.outcome.kept for trained in comparison.ensembles())
    facts = [
        comparison.title,
        with_short_paths(data) if "(" in data else "",
        shared("model"),
        f"{members}{with_unit(ensembles, 'ensemble')}{each}",
        f"{length}{price}",
        "weights of each member's best epoch kept" if best else "",
        shared("samples", "training sample"),
    ]
    return [fact for fact in facts if fact]


def _environment(source: ReportSource) -> Parts:
    facts = {n: _text(v) for n, v in source.environment.items() if n != "command"}
    settings = {name: _text(value) for name, value in source.settings.items()}
    command = _command(source) or "not recorded"
    title = paragraph(f"{short_path(source.path)}: {source.title}", "title")
    return [title, part("environment", command, facts, settings)]


def _command(source: ReportSource) -> str:
    """Return the command that made what lies in a folder."""
    return _text(source.environment.get("command", ""))


def _text(value: object) -> str:
    return with_short_paths(value if isinstance(value, str) else json.dumps(value))
