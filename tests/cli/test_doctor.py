"""What ``tepui doctor`` looks for."""

import re
import tomllib
from pathlib import Path

from tepui.cli.doctor import EXTRAS

PROJECT = Path(__file__).parents[2] / "pyproject.toml"
OF_OURS = {"dev", "docs"}  # extras that only this repository needs


def test_every_extra_is_looked_for_with_all_that_it_installs():
    declared = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]
    modules = {
        extra: {re.match(r"[\w-]+", line)[0].replace("-", "_") for line in lines}
        for extra, lines in declared.items()
        if extra not in OF_OURS
    }
    assert {extra: set(names) for extra, names in EXTRAS.items()} == modules
