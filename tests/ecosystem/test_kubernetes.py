"""The page's file for Kubernetes against the schemas that Kubernetes publishes."""

from copy import deepcopy
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


def changed(path, value):
    job = deepcopy(JOB)
    *way, last = path
    place = job
    for key in way:
        place = place[key]
    place[last] = value
    return job


POD = ("spec", "template", "spec")
MISTAKES = {
    "a field that is not known": changed(("spec", "completionmode"), "Indexed"),
    "a text for a number": changed(("spec", "parallelism"), "four"),
    "a pod without containers": changed(POD, {"restartPolicy": "Never"}),
    "a container without a name": changed((*POD, "containers"), [{"image": "x"}]),
    "a rule without an action": changed(("spec", "podFailurePolicy", "rules"), [{}]),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_in_it_would_be_found(mistake):
    with pytest.raises(library.ValidationError):
        library.validate(MISTAKES[mistake], library.latest_version(), strict=True)
