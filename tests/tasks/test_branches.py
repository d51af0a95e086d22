"""Nothing outside the tasks asks which task it is: each answers for itself."""

import ast
from pathlib import Path

import pytest

import tepui
from tepui import tasks

PACKAGE = Path(tepui.__file__).parent
KINDS = {name: kind for name, kind in vars(tasks).items() if isinstance(kind, type)}
CONCRETE = {n for n, kind in KINDS.items() if issubclass(kind, tasks.Task)} - {"Task"}
ASKED = CONCRETE | {
    n for n, kind in KINDS.items() if issubclass(kind, tasks.Prediction)
}
WORDS = {"classification", "multi_label", "multi-label", "regression"}


def branches(text):
    """Return where a file imports a concrete task, spells its name or asks for it."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and "tepui.tasks" in (node.module or ""):
            found += [name.name for name in node.names if name.name in CONCRETE]
        if isinstance(node, ast.Attribute) and node.attr in CONCRETE:
            owner = getattr(node.value, "attr", getattr(node.value, "id", ""))
            found += [node.attr] * (owner == "tasks")
        if isinstance(node, ast.Constant) and node.value in WORDS:
            found.append(node.value)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
            names = {getattr(part, "id", "") for part in ast.walk(node.args[1])}
            found += names & (ASKED - {"Classes", "Quantiles"})  # names of others, too
    return found


def test_no_module_asks_which_task_it_is():
    for file in PACKAGE.rglob("*.py"):
        part = file.relative_to(PACKAGE)
        if part.parts[0] not in ("tasks", "testing") and part != Path("core/names.py"):
            assert not branches(file.read_text("utf-8")), part


@pytest.mark.parametrize(
    "text",
    [
        "from tepui.tasks.labels import Labels as L",
        "x = tepui.tasks.Numbers()",
        "if str(task) == 'regression': pass",
        "isinstance(x, (int, Prediction))",
    ],
)
def test_a_branch_is_seen(text):
    assert branches(text)
