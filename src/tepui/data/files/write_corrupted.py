"""Writing corrupted copies in the two layouts of the published sets.

:func:`tepui.data.corrupted_files` reads either and describes them. In the layout
``folders``, images are JPEG files of quality 85, so that those read back are not quite
those written.
"""

import io
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from tepui.core.checks import require
from tepui.core.free_folder import is_free
from tepui.core.processes import mark
from tepui.core.replacing import (
    check_writable,
    remove_remains,
    replacing,
    write_bytes,
    writing,
)
from tepui.core.storage import read_document, write_document
from tepui.core.types import check_types
from tepui.data.arrays import Arrays
from tepui.data.corruptions.copies import SEVERITIES, Corrupted
from tepui.data.files.record import write_record
from tepui.data.identity import samples_hash, tensors_hash

Layout = Literal["arrays", "folders"]
Done = Callable[[tuple[str, int]], None]
MANIFEST = "corruptions.json"
LABELS = "labels.npy"
_QUALITY = 85
KIND = "corruptions"


def write_corrupted(
    copies: Corrupted,
    out: str | Path,
    *,
    layout: Layout = "arrays",
    resume: bool = False,
    done: Done = lambda key: None,
) -> None:
    """Write corrupted copies to a folder.

    A type in the layout ``arrays``, and a severity of a type in ``folders``, appears
    whole or not at all.

    Args:
        copies: From :func:`tepui.data.corrupted`, with all five severities.
        out: The folder.
        layout: ``"arrays"`` or ``"folders"``.
        resume: Add what is missing to a folder with the same images, strength and
            seed; the types may differ.
        done: Called with each type and severity once it is there.

    Raises:
        FileExistsError: If ``out`` is not empty and ``resume`` is false.
        ValueError: If ``out`` was written from something else, a severity is missing,
            or images or classes do not suit the layout.
    """
    check_types(write_corrupted, locals())
    folder = Path(out)
    rule = "be 1 to 5"
    require(copies.severities == SEVERITIES, "severities", rule, copies.severities)
    named = Path(LABELS).stem not in copies.names
    require(named, "copies", f"be called otherwise than {LABELS}", [*copies.names])
    check_writable(folder)
    classes = _class_folders(copies.dataset) if layout == "folders" else ()
    _claim(folder, {"layout": layout, **_about(copies)}, resume)
    if layout == "arrays":
        _write_arrays(copies, folder, done)
    else:
        _write_folders(copies, folder, classes, done)
    _check_there(folder)
    write_record(folder, {"manifest": MANIFEST})


def _about(copies: Corrupted) -> dict[str, Any]:
    """Return what identifies these copies, as JSON."""
    dataset = copies.dataset
    assert isinstance(dataset.inputs, Tensor)
    textures = {f"{n}": texture for n, texture in enumerate(copies.textures or ())}
    return {
        "strength": copies.strength,
        "seed": copies.seed,
        "samples": len(dataset),
        "images": samples_hash(dataset.inputs, dataset.targets),
        "frost": tensors_hash(textures) if textures else "procedural",
    }


def _claim(folder: Path, about: Mapping[str, Any], resume: bool) -> None:
    """Write the manifest, or check that the existing one says the same."""
    manifest = folder / MANIFEST
    if is_free(folder):
        write_document(manifest, KIND, about)
        return
    if not resume:
        raise FileExistsError(
            f"{folder} is not empty; pass resume=True (--resume) to add to it, or "
            "choose another folder"
        )
    if not manifest.is_file():
        raise FileExistsError(f"{folder} is not empty and has no {MANIFEST}")
    document = read_document(manifest, KIND)
    for name, value in about.items():
        recorded = document.get(name)
        rule = f"be {recorded!r} to add to {folder}"
        require(recorded == value, name, rule, value)


def _check_there(folder: Path) -> None:
    """Raise if the folder was removed since its manifest was written."""
    if not (folder / MANIFEST).is_file():
        raise FileNotFoundError(
            f"{folder} was removed or emptied while copies were written to it; start "
            "again in a new folder"
        )


def _write_arrays(copies: Corrupted, folder: Path, done: Done) -> None:
    if not (folder / LABELS).exists():
        labels = np.tile(copies.dataset.targets.cpu().numpy(), len(SEVERITIES))
        buffer = io.BytesIO()
        np.save(buffer, labels)
        write_bytes(folder / LABELS, buffer.getbuffer())
    for name in copies.names:
        if (folder / f"{name}.npy").exists():
            for severity in SEVERITIES:
                done((name, severity))
            continue
        _check_there(folder)
        with replacing(folder / f"{name}.npy") as temporary:
            _write_array(copies, name, folder / f"{name}.npy", temporary, done)


def _write_array(
    copies: Corrupted, name: str, file: Path, temporary: Path, done: Done
) -> None:
    assert isinstance(copies.dataset.inputs, Tensor)
    samples, channels, height, width = copies.dataset.inputs.shape
    shape = (len(SEVERITIES) * samples, height, width, channels)
    about = {"descr": "|u1", "fortran_order": False, "shape": shape}
    # Not mapped: a full disk would end the process instead of raising an error.
    with writing(file), temporary.open("wb") as stream:
        np.lib.format.write_array_header_1_0(stream, about)
    for severity in SEVERITIES:
        pictures = _pictures(copies[name, severity])
        with writing(file), temporary.open("ab") as stream:
            stream.write(pictures.data)
        done((name, severity))


def _write_folders(
    copies: Corrupted, folder: Path, classes: tuple[str, ...], done: Done
) -> None:
    for name, severity in copies:
        final = folder / name / str(severity)
        if not final.exists():
            copy = copies[name, severity]
            _check_there(folder)
            temporary = final.with_name(f".{severity}.{mark()}.tmp")
            try:
                with writing(final):
                    final.parent.mkdir(parents=True, exist_ok=True)
                    remove_remains(final.parent)
                    _write_folder(copy, temporary, classes)
                    temporary.rename(final)
            finally:
                shutil.rmtree(temporary, ignore_errors=True)
        done((name, severity))


def _write_folder(copy: Arrays, folder: Path, classes: tuple[str, ...]) -> None:
    from PIL import Image

    for name in classes:
        (folder / name).mkdir(parents=True)
    labels = copy.targets.tolist()
    digits = len(str(len(labels) - 1))
    for number, picture in enumerate(_pictures(copy)):
        file = folder / classes[labels[number]] / f"{number:0{digits}d}.JPEG"
        gray = picture.shape[2] == 1
        image = Image.fromarray(picture[:, :, 0] if gray else picture)
        image.save(file, "JPEG", quality=_QUALITY)


def _pictures(copy: Arrays) -> NDArray[np.uint8]:
    assert isinstance(copy.inputs, Tensor)
    return copy.inputs.permute(0, 2, 3, 1).cpu().contiguous().numpy()


def numbered_classes(targets: Tensor) -> tuple[str, ...]:
    """Return names for classes that have none."""
    return tuple(str(label) for label in range(int(targets.max()) + 1))


def _class_folders(dataset: Arrays) -> tuple[str, ...]:
    """Return one folder name per class."""
    assert isinstance(dataset.inputs, Tensor)
    channels = dataset.inputs.shape[1]
    require(
        channels in (1, 3),
        "layout",
        "be arrays unless images have 1 or 3 channels",
        channels,
    )
    names = dataset.classes or numbered_classes(dataset.targets)
    for name in names:
        plain = name == Path(name).name and name not in ("", ".", "..")
        require(plain, "classes", "be valid folder names", name)
    low, high = int(dataset.targets.min()), int(dataset.targets.max())
    rule = f"be arrays unless every image has one of {len(names)} classes"
    known = low >= 0 and high < len(names)
    require(known, "layout", rule, f"labels from {low} to {high}")
    return names
