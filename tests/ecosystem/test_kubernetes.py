"""The page's file for Kubernetes against the schemas that Kubernetes publishes."""

from pathlib import Path

import pytest
import yaml

library = pytest.importorskip("kubernetes_validate", reason="run by test-ecosystem")

FILE = Path(__file__).parents[2] / "docs" / "examples" / "kubernetes.yaml"
JOB = yaml.safe_load(FILE.read_text())
# The one in which policies for failures became stable, and the last one known.
VERSIONS = ["1.31.0", library.latest_version()]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_file_is_valid_to_the_letter(version):
    """Strictly: no field that the schema does not know."""
    assert version.startswith(library.validate(JOB, version, strict=True))
