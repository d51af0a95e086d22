"""Comparisons that nobody trained, in the form that a page takes."""

from pathlib import Path

from tepui.studies.load_reports import Entry, Group, LoadedReports, ReportSource


def shown(comparison):
    """Return a comparison as what was gathered from its folder."""
    entries = tuple(
        Entry(
            method,
            (Path("run"),),
            comparison.settings,
            ((),) * len(method.ensembles),
            ((),) * len(method.ensembles),
        )
        for method in comparison.methods
    )
    source = ReportSource(
        Path("run"), comparison.title, comparison.settings, comparison.environment
    )
    return LoadedReports(comparison.title, (Group(None, entries),), (), (source,))
