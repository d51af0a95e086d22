"""Runs of any kind as one self-contained page.

The page holds no script, and its policy lets a browser fetch nothing.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from tepui.core.provenance import short_path, with_short_paths
from tepui.core.replacing import write_bytes
from tepui.core.storage import reading
from tepui.report.drawing import as_png, as_svg
from tepui.report.markup import Drawing, drawn, paragraph, part, templates
from tepui.report.papers import Numbers, ours_alone, study_parts
from tepui.report.sections import SECTIONS, Parts
from tepui.studies.load_reports import Group, LoadedReports, ReportSource

PAGE = "report.html"
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


@dataclass(frozen=True)
class Section:
    """A part of the page with a heading."""

    title: str  # the heading
    level: int  # its level, from 2
    parts: Parts  # HTML and drawings


def write_report(
    reports: LoadedReports,
    folder: str | Path,
    numbers: Numbers = ours_alone,
    *,
    whole_paths: bool = False,
) -> Path:
    """Write ``report.html`` and its figures.

    Args:
        reports: What to show, from :func:`tepui.studies.load_reports`.
        folder: Where; the figures go into ``figures/`` below it as PNG and SVG.
        numbers: Writes a study's record as the paper's number and ours.
        whole_paths: Show commands and folders with absolute paths, as they were given.

    Returns:
        The page.
    """
    folder = Path(folder)
    sections = sections_of(reports, numbers, whole_paths)
    drawings = [p for s in sections for p in s.parts if isinstance(p, Drawing)]
    for drawing in drawings:
        file = folder / "figures" / drawing.name
        write_bytes(Path(f"{file}.svg"), as_svg(drawing.figure).encode())
        write_bytes(Path(f"{file}.png"), as_png(drawing.figure))
    page = folder / PAGE
    write_bytes(page, render(reports.title, sections).encode())
    for drawing in drawings:
        drawing.figure.clear()  # it and its axes refer to each other, and stay long
    return page


def sections_of(
    reports: LoadedReports, numbers: Numbers = ours_alone, whole_paths: bool = False
) -> list[Section]:
    """Return all sections of a page in order."""
    sections = []
    single = len(reports.groups) == 1
    if len(reports.groups) > 1:
        sections.append(Section("Groups", 2, [paragraph(_why_apart(reports))]))
    for number, group in enumerate(reports.groups, 1):
        if single:
            sections += _of_group(group, 2)
        else:
            title = f"Group {number}: {group.title}"
            inner = _of_group(group, 3)
            sections.append(Section(title, 2, []))
            sections += [_prefixed(section, f"group-{number}") for section in inner]
    for study in reports.studies:
        title = f"{study.results.item} ({study.results.size})"
        sections.append(Section(title, 2, study_parts(study, numbers)))
    sections.append(Section("Environment", 2, []))
    sections += [_environment(source, whole_paths) for source in reports.sources]
    return sections


def render(title: str, sections: Iterable[Section]) -> str:
    """Return a page as text; every string in it is escaped."""
    shown = [
        replace(section, parts=[_shown(part) for part in section.parts])
        for section in sections
    ]
    page = templates().get_template("page.html.j2")
    return page.render(title=title, policy=POLICY, sections=shown) + "\n"


def _of_group(group: Group, level: int) -> list[Section]:
    """Return the sections of a group; those without data are named in one line."""
    with reading(group.entries[0].sources[0], "evaluations with all of their fields"):
        made = {title: make(group) for title, make in SECTIONS.items()}
    sections = [Section(title, level, parts) for title, parts in made.items() if parts]
    missing = [title.lower() for title, parts in made.items() if not parts]
    if missing or group.notes:
        named = [*group.notes, *missing]
        line = f"Left out, since the data are missing or differ: {'; '.join(named)}."
        last = sections[-1]
        sections[-1] = replace(last, parts=[*last.parts, paragraph(line, "note")])
    return sections


def _prefixed(section: Section, prefix: str) -> Section:
    """Return a section whose drawings have names of their own on the page."""
    parts = [
        replace(part, name=f"{prefix}-{part.name}")
        if isinstance(part, Drawing)
        else part
        for part in section.parts
    ]
    return replace(section, parts=parts)


def _why_apart(reports: LoadedReports) -> str:
    return (
        f"The ensembles were tested in {len(reports.groups)} different ways: on other "
        "test samples, corrupted copies or unfamiliar sets, or joined by another rule. "
        "Each way has a group of its own below; nothing is averaged or ranked across "
        "groups. Evaluate runs on the same data to see them side by side."
    )


def _shown(part: str | Drawing) -> str:
    return drawn(part) if isinstance(part, Drawing) else part


def _environment(source: ReportSource, whole_paths: bool) -> Section:
    def text(value: object) -> str:
        return _plain(value) if whole_paths else with_short_paths(_plain(value))

    command = text(source.environment.get("command", "not recorded"))
    facts = {k: text(v) for k, v in source.environment.items() if k != "command"}
    settings = {name: text(value) for name, value in source.settings.items()}
    parts = [part("environment", command, facts, settings)]
    path = source.path if whole_paths else short_path(source.path)
    return Section(f"{path}: {source.title}", 3, parts)


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
