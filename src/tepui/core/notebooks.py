"""What notebooks show of an object, beside its text."""

from importlib import import_module


class ShownInNotebooks:
    """Shows itself in notebooks by the tables and pictures of the report's page."""

    def _repr_html_(self) -> str:
        # By name: the page stands floors above what it shows.
        return str(import_module("tepui.report.notebooks").html(self))
