"""Whether files still hold what was written to them.

A run, a store, a comparison and a data set are folders; each file in them that tepui
wrote is compared with the digest it carries, and what files say of each other with what
is there.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tepui.core.checks import require
from tepui.core.lease import LEASE
from tepui.core.replacing import remains_in
from tepui.core.storage import (
    check_tensors,
    is_sealed,
    opened,
    read_document,
    read_json,
    read_lines,
    tensors_kind,
)
from tepui.data.corruptions.files import KIND as CORRUPTIONS
from tepui.data.corruptions.files import MANIFEST
from tepui.data.published import KIND as DATA_SET
from tepui.data.published import RECORD, check_record
from tepui.ensembles.ensemble import FILE
from tepui.ensembles.ensemble import KIND as ENSEMBLE
from tepui.ensembles.feature_detectors import DETECTORS, DETECTORS_KIND
from tepui.ensembles.loading import DIVERGED
from tepui.evaluation.cost import COST, COST_KIND
from tepui.evaluation.evaluations import FOLDER as EVALUATIONS
from tepui.evaluation.evaluations import KIND as EVALUATION_KIND
from tepui.evaluation.gallery import FILE as GALLERY
from tepui.evaluation.gallery import KIND as GALLERY_KIND
from tepui.studies.results import FILE as RESULTS
from tepui.studies.results import KIND as RESULTS_KIND
from tepui.studies.results import read_results
from tepui.studies.store import INDEX, INDEX_KIND, SHARPNESS, SHARPNESS_KIND
from tepui.training.run_folder import OPTIONS, OPTIONS_KIND, TRACKING, RunFolder

# What lies under these names is tepui's, and must be sealed.
KINDS = {
    "run.json": "run",
    "checkpoint.json": "checkpoint",
    "outcome.json": "outcome",
    TRACKING: "tracking",
    OPTIONS: OPTIONS_KIND,
    "estimator.json": "estimator",
    "left_out.json": "images left out",
    DIVERGED: "divergence",
    COST: COST_KIND,
    f"{EVALUATIONS}/*.json": EVALUATION_KIND,
    SHARPNESS: SHARPNESS_KIND,
    "measure-*.json": SHARPNESS_KIND,
    GALLERY: GALLERY_KIND,
    INDEX: INDEX_KIND,
    RESULTS: RESULTS_KIND,
    "claims.json": "claims",
    MANIFEST: CORRUPTIONS,
    RECORD: DATA_SET,
    FILE: ENSEMBLE,
    DETECTORS: DETECTORS_KIND,
}
UNSEALED = "files without a digest"
FOREIGN = "foreign files that cannot be read"
LEFT_OVER = "remains of killed writers, which the next one removes"


class Finding(NamedTuple):
    """A file that :func:`verify` looked at.

    Attributes:
        file: The file.
        kind: What it holds.
        damage: What is wrong with it; None if nothing is.
    """

    file: Path
    kind: str
    damage: str | None = None


def verify(path: str | Path) -> list[Finding]:
    """Compare files with the digests that were written with them.

    Args:
        path: A file, or the folder of a run, a store, a comparison, the results of a
            study or a data set; everything below it is looked at.

    Returns:
        What was found, in the order of the files; ``damage`` is None where a file is
        as it was written, or of others.

    Raises:
        FileNotFoundError: If there is nothing.

    Example:
        >>> import tempfile, torch, tepui
        >>> ensemble = tepui.Ensemble.build(lambda: torch.nn.Linear(4, 3), members=2)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = ensemble.save(folder)
        ...     (found,) = verify(folder)
        >>> found.kind, found.damage
        ('ensemble', None)
    """
    root = Path(path)
    if root.is_file():
        return [_file(root)]
    if not root.is_dir():
        raise FileNotFoundError(f"no file or folder {root}")
    return [*_folder(root)]


def _folder(folder: Path) -> Iterator[Finding]:
    recorded: set[Path] = set()
    if (folder / RECORD).is_file():
        with suppress(ValueError):  # the record itself is looked at below
            for file, damage in check_record(folder):
                recorded.add(file)
                yield Finding(file, f"file of a {DATA_SET}", damage)
    remains = {*remains_in(folder)}
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            if not _is_lease(path):
                yield from (f for f in _folder(path) if f.file not in recorded)
        elif path in remains:
            yield Finding(path, LEFT_OVER)
        elif path not in recorded:
            yield _file(path)


def _file(file: Path) -> Finding:
    """Return what is found in one file by its name and by what it says of itself."""
    kind = next((k for name, k in KINDS.items() if file.match(name)), None)
    try:
        if file == RunFolder(file.parent).metrics:
            kind = "log of epochs"
            read_lines(file, "epoch")
        elif file.suffix == ".json":
            if kind is None and not is_sealed(file):
                return Finding(file, _kind_of_foreign(file))
            kind = kind or str(read_json(file).get("kind"))
            read_document(file, kind)
            _check_named(file, kind)
        elif file.suffix == ".safetensors":
            kind = kind or _kind_of_tensors(file)
            if kind is not None:
                check_tensors(file, kind)
        return Finding(file, kind or UNSEALED)
    except (OSError, ValueError) as error:
        return Finding(file, kind or f"{file.suffix} file", str(error))


def _kind_of_foreign(file: Path) -> str:
    """Return what a document of others is."""
    try:
        read_json(file)
    except ValueError:
        return FOREIGN
    return UNSEALED


def _kind_of_tensors(file: Path) -> str | None:
    with opened(file) as tensors:
        written = "tepui" in (tensors.metadata() or {})
    return tensors_kind(file) if written else None


def _check_named(file: Path, kind: str) -> None:
    """Raise unless what a document names is there."""
    folder = file.parent
    if kind == "checkpoint":
        saved = RunFolder(folder).load_checkpoint()
        assert saved is not None
        for index in range(len(saved.digests)):
            saved.file(index)
    elif kind == "outcome":
        there = RunFolder(folder).ensemble.is_file()
        require(there, str(folder), "hold the ensemble of its ended run", "none")
    elif kind == RESULTS_KIND:
        runs = read_results(folder).settings.get("runs", {})
        for name in (name for names in runs.values() for name in names):
            there = (folder / name).is_dir()
            require(there, str(file), f"have the run {name} beside it", "none")


def _is_lease(folder: Path) -> bool:
    return folder.name.endswith(LEASE)
