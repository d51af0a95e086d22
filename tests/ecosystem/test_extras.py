"""Every extra is installed beside the pinned torch, and brings no second one."""

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from packages import COMPLETE, imported

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
PINNED = dict(
    re.findall(r"^([\w-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.M)
)
ASKED = {"vision", "text", "export", "hub", "track", "ray", "slurm", "docs", "dev"}


def version_of(name):
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def missing(extra):
    """Return what of an extra is not installed as asked for."""
    asked = map(Requirement, EXTRAS[extra])
    return [
        f"{item} (there is {version_of(item.name)})"
        for item in asked
        if item.marker is None or item.marker.evaluate()
        if not (
            (found := version_of(item.name))
            and item.specifier.contains(found, prereleases=True)
        )
    ]


def test_the_extras_are_those_that_the_documents_name():
    assert EXTRAS.keys() >= ASKED


@pytest.mark.parametrize("extra", sorted(EXTRAS))
def test_an_extra_is_installed(extra):
    lacking = missing(extra)
    optional = extra == "ray" or not COMPLETE  # there is no Ray for some machines
    if lacking and optional:
        pytest.skip(f"not installed: {lacking}")
    assert not lacking


def test_a_missing_package_skips_a_test_only_where_it_may_be_missing():
    missing = ModuleNotFoundError if COMPLETE else pytest.skip.Exception
    with pytest.raises(missing):
        pytest.importorskip("a_package_that_nobody_has")
    with pytest.raises(ModuleNotFoundError):
        imported("a_package_that_nobody_has", reason="it must not be hidden")


@pytest.mark.skipif(not COMPLETE, reason="only make test-ecosystem installs it all")
def test_nothing_brought_another_torch_or_torchvision():
    installed = {item.metadata["Name"].lower() for item in metadata.distributions()}
    assert "torchvision" not in installed
    assert not {name for name in installed if name.startswith("nvidia-")}
    for name, version in PINNED.items():
        assert version_of(name).partition("+")[0] == version
