"""What ``tepui measure`` wrote down of a run."""

from pathlib import Path
from typing import Any

from tepui.core.storage import is_sealed, read_document

FILE = "measure.json"
KIND = "measures"
FOLDERS = "measure-*"


def stored_measures(run: Path) -> dict[str, dict[str, Any]]:
    """Return the measures in the folder of a run, by the names of their own folders.

    Files of others are passed over.
    """
    files = [file for file in sorted(run.glob(f"{FOLDERS}/{FILE}")) if is_sealed(file)]
    return {file.parent.name: read_document(file, KIND) for file in files}
