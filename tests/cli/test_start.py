"""How much is loaded before ``tepui --help`` answers."""

import re
import subprocess
import sys

from tepui.cli.main import COMMANDS

SLOW = ("triton", "scipy", "sklearn", "matplotlib", "PIL", "transformers", "ray")


def test_help_loads_nothing_slow_beside_torch_and_names_every_command():
    words = [sys.executable, "-X", "importtime", "-m", "tepui", "--help"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    loaded = set(re.findall(r"\| +([\w.]+)$", done.stderr, re.MULTILINE))
    assert {"torch", "tepui.cli.main"} <= loaded
    assert not loaded & {*SLOW, "tepui.cli.wrapped"}
    for name, (function, _) in COMMANDS.items():
        summary = function.__doc__.partition("\n")[0].rstrip(".")
        assert re.search(rf"^ +{name} +{summary.split()[0]}", done.stdout, re.MULTILINE)
