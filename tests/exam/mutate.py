"""Try every mutation of ``mutations/`` again: is it caught by the tests it names?

A patch begins with a sentence of the behavior that it changes and with a line
``caught by: tests/exam/…``. Called with parts of names to try only some.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ORACLE, RECIPE = "tests/exam/oracle.py", "sharpbalance/table2"


def ended(src, tests):
    """Return how tests end, or the oracle, if the package in this folder is meant."""
    quiet = ["-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider"]
    calls = [[test, RECIPE] if test == ORACLE else [*quiet, test] for test in tests]
    env = os.environ | {"PYTHONPATH": str(src), "EXAM_SRC": str(src)}
    how = {"cwd": ROOT, "env": env, "capture_output": True}
    ends = (
        subprocess.run([sys.executable, *call], check=False, **how) for call in calls
    )
    return max(end.returncode for end in ends)


def fate(patch, tests):
    """Return what becomes of a mutation."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "src", f"{folder}/src")
        apply = ["git", "apply", str(patch)]
        if subprocess.run(apply, check=False, cwd=folder).returncode:
            return "does not apply"
        ends = {0: "SURVIVED", 1: "caught"}
        return ends.get(ended(f"{folder}/src", tests), "does not run")


def main(*parts):
    """Try mutations and say what became of each; leave with 1 if not all are caught."""
    every = sorted((HERE / "mutations").glob("*.patch"))
    chosen = [p for p in every if not parts or any(part in p.name for part in parts)]
    heads = {patch: patch.read_text().splitlines()[:2] for patch in chosen}
    tests = {p: head[1].removeprefix("caught by:").split() for p, head in heads.items()}
    if ended(ROOT / "src", {name: 0 for names in tests.values() for name in names}):
        sys.exit("the tests fail without any mutation")
    fates = []
    for patch in chosen:
        fates.append(fate(patch, tests[patch]))
        print(f"{fates[-1]:14} {patch.stem}: {heads[patch][0]}", flush=True)  # noqa: T201
    sys.exit({*fates} != {"caught"})


if __name__ == "__main__":
    main(*sys.argv[1:])
