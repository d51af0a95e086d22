"""What an installed tepui brings along, and what it says of itself."""

import os
import re
from importlib.metadata import distribution
from pathlib import Path

import pytest

import tepui

ROOT = Path(__file__).parents[1]
AS_WHEEL = pytest.mark.skipif(
    "TEPUI_WHEEL" not in os.environ, reason="of an installed wheel: make test-wheel"
)


def beside_code(package):
    """Paths of all files of a package that are no code."""
    files = (path.relative_to(package) for path in package.rglob("*") if path.is_file())
    return {str(path) for path in files if path.suffix not in (".py", ".pyc")}


def test_files_beside_the_code_are_installed():
    installed = beside_code(Path(tepui.__file__).parent)
    assert installed == beside_code(ROOT / "src" / "tepui")
    assert {"py.typed", "papers/published.json"} <= installed


def test_documents_name_the_version():
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.M)
    newest = re.search(r"^## (\d\S+)", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert cited[1] == newest[1] == tepui.__version__


@AS_WHEEL
def test_what_is_tested_is_the_wheel():
    assert ROOT / "src" not in Path(tepui.__file__).parents
    installed = distribution("tepui")
    assert installed.version == tepui.__version__
    assert installed.metadata["License-Expression"] == "Apache-2.0"
    page = installed.metadata.get_payload() or installed.metadata["Description"]
    assert "average their answers" in page
    assert re.findall(r"\]\((?!https?:)", page) == []
    assert {script.name for script in installed.entry_points} == {"tepui"}
