"""Compare this tree's records with those of the commit that the exam stands on.

    python tests/exam/oracle.py [RECIPE ...]

The other tree gets an environment of its own, with the versions of this one; either
tree runs its own ``records.py``. What differs must be in ``differences.json``, with the
rule that changed it, and what is in there must differ.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PLACE = ROOT / ".oracle"
GONE = "ours/"  # studies of our own, which left the package
SRC = os.environ.get("EXAM_SRC", ROOT / "src")  # another one where a mutation is tried


def said_by(*words):
    """Return what a command says."""
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def built(commit):
    """Return the tree of a commit, with an environment in which it is installed."""
    tree = PLACE / commit[:12]
    if not tree.exists():
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "prune"], check=True)
        subprocess.run([*git, "add", "--detach", str(tree), commit], check=True)
    versions = PLACE / "versions.txt"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    versions.write_text(said_by(*pip, "freeze", "--exclude-editable"))
    make = ["make", "-C", str(tree), f"PYTHON={sys.executable}", ".venv/.installed"]
    subprocess.run(make, check=True, env=os.environ | {"PIP_CONSTRAINT": str(versions)})
    return tree


def started(tree, src, python, out, recipes):
    """Start a tree's records, with the package of a folder, in their own process."""
    path = os.pathsep.join((str(src), str(tree / "tests")))
    return subprocess.Popen(
        [str(python), str(tree / "tests/exam/records.py"), str(out), *recipes],
        env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        cwd=PLACE,
    )


def problems(then, now, known):
    """Yield every id whose records are not as they are said to be.

    Example:
        >>> then, now = {"a": 1, "b": 1, "c": 1}, {"a": 1, "b": 2, "d": 1}
        >>> [*problems(then, now, {"a": "a rule"})]
        ['a: listed, but equal', 'b: differs', 'c: missing']
        >>> [*problems({"b": 1, "c": 1}, {"b": 2}, {"b": "a rule", "c": "it is gone"})]
        []
    """
    for name in sorted({*then, *known}):
        if name not in then:
            yield f"{name}: listed, but the oracle has no such record"
        elif name not in now:
            if name not in known:
                yield f"{name}: missing"
        elif name in known and then[name] == now[name]:
            yield f"{name}: listed, but equal"
        elif name not in known and then[name] != now[name]:
            yield f"{name}: differs"


def main(*recipes):
    """Compare, say what differs, and leave with 1 if anything does."""
    asked = (HERE / "oracle.txt").read_text().split()[0]
    commit = said_by("git", "-C", str(ROOT), "rev-parse", asked).strip()
    PLACE.mkdir(exist_ok=True)
    tree = built(commit)
    files = PLACE / "then.json", PLACE / "now.json"
    running = [
        started(tree, tree / "src", tree / ".venv/bin/python", files[0], recipes),
        started(ROOT, SRC, sys.executable, files[1], recipes),
    ]
    if {process.wait() for process in running} != {0}:
        sys.exit("records could not be made")
    then, now = (json.loads(file.read_text()) for file in files)
    then = {name: value for name, value in then.items() if not name.startswith(GONE)}
    known = json.loads((HERE / "differences.json").read_text())
    if recipes:
        known = {name: rule for name, rule in known.items() if name in then}
    found = [*problems(then, now, known)]
    said = f"{len(then)} records of {commit[:12]}: {len(found)} problems"
    print(*found, said, sep="\n")  # noqa: T201
    sys.exit(bool(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
