"""Runs of any kind as one self-contained page.

The page holds no script, and its policy lets a browser fetch nothing.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from markupsafe import Markup

from tepui.core.provenance import short_path, with_short_paths
from tepui.core.replacing import write_bytes
from tepui.core.storage import reading
from tepui.report.contrast_rows import claim
from tepui.report.loading import Group, LoadedReports, ReportSource
from tepui.report.markup import note, paragraph, part, templates
from tepui.report.papers import Numbers, ours_alone, study_parts
from tepui.report.run_ends import epochs_of, kept_fact
from tepui.report.sections import (
    BY_CLASS,
    BY_LABEL,
    DIFFERENCES,
    MEASURES,
    OPEN,
    SECTIONS,
    Parts,
)
from tepui.report.wording import TIMES, with_unit

PAGE = "report.html"
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
Found = TypeVar("Found")


@dataclass(frozen=True)
class Section:
    """A part of the page with a heading."""

    title: str  # the heading
    anchor: str  # what links to it
    parts: Parts
    more: str = ""  # of the heading, where there is room
    within: str = ""  # anchor of the section around it
    inner: bool = False  # whether there are sections within it
    folded: bool = False  # whether it opens only when its heading is chosen

    @property
    def level(self) -> int:
        """The heading's level."""
        return 3 if self.within else 2


@dataclass(frozen=True)
class Opening:
    """What stands above the first section."""

    title: str
    command: str  # that began what is shown; empty for several folders
    facts: Sequence[str]  # what was trained, and on what
    version: str  # of tepui


def write_report(
    reports: LoadedReports,
    folder: str | Path,
    numbers: Numbers = ours_alone,
    *,
    whole_paths: bool = False,
) -> Path:
    """Write ``report.html``, a page that needs no other file.

    Args:
        reports: What to show, from :func:`tepui.report.load_reports`.
        folder: Where.
        numbers: Writes a study's record as the paper's number and ours.
        whole_paths: Show commands and folders with absolute paths, as they were given.

    Returns:
        The page.
    """
    page = Path(folder) / PAGE
    sections = sections_of(reports, numbers, whole_paths)
    write_bytes(page, render(opening_of(reports, whole_paths), sections).encode())
    return page


def opening_of(reports: LoadedReports, whole_paths: bool = False) -> Opening:
    """Return what stands above the first section."""
    environments = [source.environment for source in reports.sources]
    command = ""
    if len(reports.sources) == 1:
        command = _command(reports.sources[0], whole_paths)
    versions = {str(e["tepui"]) for e in environments if "tepui" in e}
    version = ", ".join(sorted(versions))
    facts = _facts(reports.groups[0]) if len(reports.groups) == 1 else []
    return Opening(reports.title, command, facts, version)


def sections_of(
    reports: LoadedReports, numbers: Numbers = ours_alone, whole_paths: bool = False
) -> list[Section]:
    """Return all sections of a page in order."""
    if len(reports.groups) == 1:
        sections = _of_group(reports.groups[0], "")
    else:
        sections = _of_groups(reports.groups)
    for number, study in enumerate(reports.studies, 1):
        anchor, results = f"study-{number}", study.results
        title = f"{results.name} ({results.size})"
        sections.append(Section(title, anchor, study_parts(study, numbers)))
    sections.append(Section("Reproduce", "reproduce", [], inner=True))
    sections += [
        _environment(source, number, whole_paths)
        for number, source in enumerate(reports.sources, 1)
    ]
    return sections


def render(opening: Opening, sections: Iterable[Section]) -> str:
    """Return a page as text; every string in it is escaped."""
    page = templates().get_template("page.html.j2")
    return page.render(**vars(opening), policy=POLICY, sections=[*sections]) + "\n"


def _of_groups(groups: Sequence[Group]) -> list[Section]:
    """Return the sections of several groups; the first says what each of them shows."""
    if not groups:
        return []
    names = [f"group-{number}" for number in range(1, len(groups) + 1)]
    titles = [f"Group {number}" for number in range(1, len(groups) + 1)]
    claims = [_read(group, claim) for group in groups]
    tested = [f"{t}: {g.title}." for t, g in zip(titles, groups, strict=True)]
    items = list(zip(names, tested, claims, strict=True))
    parts = [paragraph(_why_apart(len(groups)), "lead"), part("claims", items)]
    sections = [Section("Summary", "summary", parts)]
    for name, title, group in zip(names, titles, groups, strict=True):
        inner = _of_group(group, name)
        first, *rest = inner
        sections.append(Section(title, name, first.parts, group.title, inner=True))
        sections += rest
    return sections


def _of_group(group: Group, within: str) -> list[Section]:
    """Return the sections of a group; those without data are named in one line."""
    made: dict[str, Parts] = {
        title: _read(group, make) for title, make in SECTIONS.items()
    }
    prefix = f"{within}-" if within else ""
    sections = [
        Section(
            title,
            f"{prefix}{_anchor(title)}",
            parts,
            within=within,
            folded=title not in OPEN,
        )
        for title, parts in made.items()
        if parts
    ]
    # No page misses measures or classes, and none of one method its differences.
    alone = len(group.entries) == 1
    spared = {MEASURES, BY_CLASS, BY_LABEL, *([DIFFERENCES] if alone else ())}
    missing = [t.lower() for t, parts in made.items() if not (parts or t in spared)]
    if missing or group.notes:
        named = [*group.notes, *missing]
        line = f"Left out, since the data are missing or differ: {'; '.join(named)}."
        place = max(n for n, each in enumerate(sections) if not each.folded)
        parts = [*sections[place].parts, note(line)]
        sections[place] = replace(sections[place], parts=parts)
    return sections


def _read(group: Group, make: Callable[[Group], Found]) -> Found:
    with reading(group.entries[0].sources[0], "evaluations with all of their fields"):
        return make(group)


def _why_apart(groups: int) -> str:
    return (
        f"The ensembles were tested in {groups} different ways: on other test samples, "
        "corrupted copies or unfamiliar sets, or joined by another rule. Each way has "
        "a group of its own below; nothing is averaged or ranked across groups. "
        "Evaluate runs on the same data to see them side by side."
    )


def _facts(group: Group) -> list[str]:
    def shared(name: str, unit: str = "") -> str:
        values = {str(entry.training.get(name)) for entry in group.entries}
        if len(values) > 1 or "None" in values:
            return ""
        (value,) = values
        return with_unit(value, unit)

    counts = sorted({len(entry.result.ensembles) for entry in group.entries})
    ensembles = " to ".join(map(str, dict.fromkeys((counts[0], counts[-1]))))
    members = f"{known} {TIMES} " if (known := shared("members", "member")) else ""
    unit = "ensemble" if ensembles == "1" else "ensembles"
    each = " per method" if len(group.entries) > 1 else ""
    facts = [
        group.title,
        shared("data"),
        shared("model"),
        f"{members}{ensembles} {unit}{each}",
        epochs_of(group.entries, "epoch"),
        kept_fact(group.entries),
        shared("samples", "training sample"),
    ]
    return [fact for fact in facts if fact]


def _environment(source: ReportSource, number: int, whole_paths: bool) -> Section:
    command = _command(source, whole_paths) or "not recorded"
    facts = {
        name: _text(value, whole_paths)
        for name, value in source.environment.items()
        if name != "command"
    }
    settings = {
        name: _text(value, whole_paths) for name, value in source.settings.items()
    }
    parts: list[Markup] = [part("environment", command, facts, settings)]
    path = source.path if whole_paths else short_path(source.path)
    name = f"source-{number}"
    return Section(str(path), name, parts, source.title, within="reproduce")


def _command(source: ReportSource, whole_paths: bool) -> str:
    """Return the command that made what lies in a folder."""
    return _text(source.environment.get("command", ""), whole_paths)


def _text(value: object, whole_paths: bool) -> str:
    plain = value if isinstance(value, str) else json.dumps(value)
    return plain if whole_paths else with_short_paths(plain)


def _anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower())
