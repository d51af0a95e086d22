"""What ``tepui measure`` wrote down of a run."""

from pathlib import Path
from typing import Any

from tepui.core.storage import read_document

FILE = "measure.json"
KIND = "measures"


def stored_measures(run: Path) -> dict[str, dict[str, Any]]:
    """Return the measures that lie in folders within that of a run, by their names."""
    files = sorted(run.glob(f"*/{FILE}"))
    return {file.parent.name: read_document(file, KIND) for file in files}
