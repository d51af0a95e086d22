"""Saving an ensemble with its card, and exchanging it with Hugging Face's hub."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tepui.core.checks import require
from tepui.core.extras import extra
from tepui.core.replacing import write_bytes
from tepui.core.types import check_types
from tepui.core.warning import warn
from tepui.ensembles.building import Factory
from tepui.ensembles.ensemble import FILE, Ensemble
from tepui.ensembles.feature_detectors import DETECTORS
from tepui.ensembles.loading import load
from tepui.evaluation import Evaluation
from tepui.hub.card import model_card

CARD = "README.md"


def save_pretrained(
    ensemble: Ensemble,
    path: str | Path,
    *,
    evaluation: Evaluation | None = None,
    title: str = "Deep ensemble",
    data: str | None = None,
    license: str | None = None,
    place: str | None = None,
    overwrite: bool = False,
) -> Path:
    """Save an ensemble and its model card.

    Args:
        ensemble: What to save, as :meth:`tepui.Ensemble.save` does.
        path: The folder.
        evaluation: What :func:`tepui.evaluate` returned for it.
        title: The card's heading.
        data: Name of the data that it was evaluated on; needed with ``evaluation``.
        license: Its license by the hub's name, such as ``"apache-2.0"``.
        place: Where readers of the card will find the ensemble; the folder by default.
        overwrite: Replace an ensemble and a card that are there.

    Returns:
        The folder.

    Raises:
        FileExistsError: If an ensemble or a ``README.md`` is there and ``overwrite`` is
            false.
        ValueError: If the evaluation is not of this ensemble, or its data have no name.

    Example:
        >>> from torch import nn
        >>> ensemble = Ensemble.build(lambda: nn.Linear(4, 3), members=2)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = save_pretrained(ensemble, folder)
        ...     sorted(file.name for file in path.iterdir())
        ['README.md', 'ensemble.safetensors']
    """
    check_types(save_pretrained, locals())
    folder = Path(path)
    card = model_card(
        ensemble,
        evaluation,
        title=title,
        data=data,
        license=license,
        place=folder.name if place is None else place,
    )
    if (folder / CARD).exists() and not overwrite:
        raise FileExistsError(
            f"{folder / CARD} exists; choose another path or pass overwrite=True"
        )
    ensemble.save(folder, overwrite)
    write_bytes(folder / CARD, card.encode())
    return folder


def from_pretrained(
    name: str | Path,
    *,
    factory: Factory | Sequence[Factory] | None = None,
    extractor: Factory | None = None,
    revision: str | None = None,
    token: str | bool | None = None,
) -> Ensemble:
    """Load an ensemble from a folder, or else from the hub.

    Of a repository the ensemble is fetched, and its detectors of features if it has
    some; nothing in them is executed.

    Args:
        name: A folder, or ``"owner/name"`` on the hub.
        factory: As :func:`tepui.load` takes it, for models that tepui does not know.
        extractor: As :func:`tepui.load` takes it.
        revision: A branch, tag or commit on the hub.
        token: What the hub takes for private repositories.

    Returns:
        The ensemble, on the CPU, in eval mode.

    Raises:
        ImportError: If the hub is needed and huggingface_hub is not installed.
        FileNotFoundError: If the folder holds no ensemble.
        ValueError: If the name is neither a folder nor of the form of a repository's,
            or the file is foreign or damaged.
    """
    check_types(from_pretrained, locals())
    if _is_folder(name, revision):
        if not (Path(name) / FILE).is_file():
            raise FileNotFoundError(
                f"name must be a folder that holds {FILE}, got {name}"
            )
        return load(name, factory, extractor)
    library = extra("huggingface_hub", "hub")
    at = {"revision": revision, "token": token}
    file = library.hf_hub_download(name, FILE, **at)
    _fetch_detectors(library, name, at)
    return load(Path(file).parent, factory, extractor)


def push_to_hub(
    ensemble: Ensemble,
    name: str,
    *,
    evaluation: Evaluation | None = None,
    title: str | None = None,
    data: str | None = None,
    license: str | None = None,
    private: bool = True,
    revision: str | None = None,
    message: str = "Upload an ensemble",
    token: str | bool | None = None,
) -> str:
    """Upload an ensemble and its model card.

    Args:
        ensemble: What to upload.
        name: ``"owner/name"``; the repository is made if it is not there.
        evaluation: What :func:`tepui.evaluate` returned for it.
        title: The card's heading; the repository's name by default.
        data: Name of the data that it was evaluated on; needed with ``evaluation``.
        license: Its license by the hub's name.
        private: Whether a new repository is visible to its owner alone.
        revision: The branch to write to.
        message: Of the commit.
        token: What the hub takes; by default what its own login has stored.

    Returns:
        The address of the commit.

    Raises:
        ImportError: If huggingface_hub is not installed.
        ValueError: If the evaluation is not of this ensemble, or its data have no name.
    """
    check_types(push_to_hub, locals())
    library = extra("huggingface_hub", "hub")
    with tempfile.TemporaryDirectory() as folder:
        save_pretrained(
            ensemble,
            folder,
            evaluation=evaluation,
            title=name.rpartition("/")[2] if title is None else title,
            data=data,
            license=license,
            place=name,
        )
        api: Any = library.HfApi(token=token)
        api.create_repo(name, private=private, exist_ok=True)
        commit = api.upload_folder(
            repo_id=name,
            folder_path=folder,
            revision=revision,
            commit_message=message,
            allow_patterns=[FILE, DETECTORS, CARD],
            delete_patterns=[DETECTORS],  # those of the weights before
        )
    return str(commit.commit_url)


def _fetch_detectors(library: Any, name: Any, at: dict[str, Any]) -> None:
    """Fetch the detectors of a repository, if there are some, to beside its ensemble.

    Without a connection they are those that were fetched before, as an ensemble is.
    """
    errors = extra("huggingface_hub.errors", "hub")
    try:
        library.hf_hub_download(name, DETECTORS, **at)
    except errors.LocalEntryNotFoundError:
        warn(
            f"the hub cannot be asked for detectors of features of {name}, and none "
            "were fetched before: there are none here"
        )
    except errors.EntryNotFoundError:
        pass


def _is_folder(name: str | Path, revision: str | None) -> bool:
    """Return whether a name is a folder's; raise if it is no repository's either."""
    if Path(name).is_dir():
        rule = "be None for a folder, which has no revisions"
        require(revision is None, "revision", rule, revision)
        return True
    rule = "be a folder, or owner/name on the hub"
    parts = str(name).split("/")
    repository = isinstance(name, str) and len(parts) == 2 and all(parts)
    require(repository and parts[0] not in (".", "..", "~"), "name", rule, str(name))
    return False
