"""Where the weight is, and that no room grows past its budget: ``make lint`` runs this.

Code is every line of Python that is neither blank nor comment nor docstring, and every
line of a template or style sheet that is not blank. Budgets lie beside this file.
"""

import ast
import io
import json
import sys
import tokenize
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
BUDGETS = Path(__file__).with_name("budgets.json")
ROOMS = (
    *("cli", "papers", "report", "studies", "training"),
    *("evaluation+ensembles+tasks", "data", "metrics+sharpness", "core"),
    *(
        "methods+theory+models+modules+losses+optim",
        "testing+sklearn+export+hub+tracking",
    ),
)
BESIDE = ("benchmarks", "docs", "examples", "research")
TEMPLATES = {".html", ".jinja", ".j2", ".css", ".js", ".svg"}
SLACK = 0.02  # a room that shrank by more lowers its budget
SMELL = 600  # lines of a file
NO_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.ENDMARKER),
    *(tokenize.INDENT, tokenize.DEDENT),
}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def code_lines(text: str) -> int:
    """Return how many lines of a Python file are code.

    Example:
        >>> code_lines('x = 1  # one\\n\\n\\ndef f():\\n    "Two."\\n    return x\\n')
        3
    """
    quoted: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
            first = node.body[0]
            quoted |= {*range(first.lineno, (first.end_lineno or first.lineno) + 1)}
    used: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            used |= {*range(token.start[0], token.end[0] + 1)}
    return len(used - quoted)


def weight_of(file: Path) -> int:
    """Return the lines of code in a file."""
    text = file.read_text(encoding="utf-8")
    if file.suffix in TEMPLATES:
        return sum(bool(line.strip()) for line in text.splitlines())
    return code_lines(text) if file.suffix == ".py" else 0


def weights(root: Path) -> dict[str, int]:
    """Return how much each budget is of, in lines of code, files and words."""
    package = root / "src/tepui"
    per: Counter[str] = Counter()
    files = sorted(file for file in package.rglob("*") if file.is_file())
    for file in files:
        per[file.relative_to(package).parts[0].removesuffix(".py")] += weight_of(file)
    found = {room: sum(per.pop(part, 0) for part in room.split("+")) for room in ROOMS}
    found["rest of the package"] = sum(per.values())
    found["files"] = sum(file.suffix == ".py" for file in files)
    found["tests"] = _below(root, "tests")
    found["beside the package"] = sum(_below(root, name) for name in BESIDE)
    found["words of documents"] = _words(root)
    return found


def _below(root: Path, name: str) -> int:
    return sum(weight_of(file) for file in (root / name).rglob("*.py"))


def _words(root: Path) -> int:
    """Return the words of all pages but those of results and of our own studies."""
    names = [page.relative_to(root) for page in root.rglob("*.md")]
    pages = [name for name in names if not any(p.startswith(".") for p in name.parts)]
    kept = [name for name in pages if not {"research", "results"} & {*name.parts}]
    return sum(len((root / name).read_text(encoding="utf-8").split()) for name in kept)


def verdicts(found: dict[str, int], budgets: dict[str, Any]) -> list[str]:
    """Return what is past its budget, and what asks for a lower one.

    Example:
        >>> verdicts({"cli": 101, "core": 97, "data": 99}, dict.fromkeys(
        ...     ("cli", "core", "data"), 100))
        ['cli: 101 of 100, over by 1', 'core: 97 of 100, lower its budget to 97']
    """
    said = []
    for name, size in found.items():
        most = budgets[name]
        if size > most:
            said.append(f"{name}: {size} of {most}, over by {size - most}")
        elif size < (1 - SLACK) * most and name not in budgets.get("reserved", ()):
            said.append(f"{name}: {size} of {most}, lower its budget to {size}")
    return said


def main() -> None:
    """Print the table; end with status 1 if a budget does not hold."""
    found, budgets = weights(ROOT), json.loads(BUDGETS.read_text())
    lines = [f"{name:44} {size:7} of {budgets[name]:7}" for name, size in found.items()]
    for file in sorted((ROOT / "src").rglob("*.py")):
        if (long := file.read_text().count("\n")) > SMELL:
            lines.append(f"past {SMELL} lines: {file.relative_to(ROOT)} ({long})")
    sys.stdout.write("\n".join([*lines, ""]))
    if said := verdicts(found, budgets):
        sys.exit("\n".join(said))


if __name__ == "__main__":
    main()
