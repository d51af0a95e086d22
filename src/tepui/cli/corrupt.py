"""``tepui corrupt``: write corrupted copies of a data set in a published layout."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from rich.progress import Progress

from tepui.cli.console import console
from tepui.cli.datasets import Data, part
from tepui.cli.folders import folder_for, resumable
from tepui.cli.own_functions import is_own, own_functions
from tepui.core.checks import require
from tepui.core.replacing import check_writable
from tepui.data import (
    CORRUPTIONS,
    STANDARD,
    Corruption,
    Digits,
    corrupted,
    load_frost,
    to_arrays,
    write_corrupted,
)

EXAMPLE = "tepui corrupt digits --out data/digits-c"


def corrupt(
    data: Data = Digits,
    out: Path | None = None,
    types: list[str] | None = None,
    strength: Literal["cifar", "tiny_imagenet", "imagenet"] = "cifar",
    layout: Literal["arrays", "folders"] | None = None,
    seed: int = 0,
    frost: Path | None = None,
    device: str = "cpu",
    resume: bool = False,
    quiet: bool = False,
) -> None:
    """Write corrupted copies of a data set.

    Args:
        data: The data set, also as the first word after the command; its test part is
            used.
        out: The folder; the next free runs/corrupt-NNN by default.
        types: Which corruptions, such as: --types fog snow; the fifteen standard ones
            by default. Functions of yours by their paths too: --types fog
            mypackage.my_corruption
        strength: Which benchmark's parameters to use.
        layout: arrays (TYPE.npy and labels.npy, as CIFAR-10-C) or folders
            (TYPE/SEVERITY/CLASS/NAME.JPEG, as ImageNet-C); by default arrays at the
            strength of CIFAR, else folders.
        seed: Seed of all random draws.
        frost: A folder with the photographs of frost (frost1.png to frost5.jpg);
            procedural textures by default.
        device: Where to compute.
        resume: Add what is missing to the folder.
        quiet: Show no progress.
    """
    kinds = _kinds(types) if types else STANDARD
    folder = folder_for("corrupt", out, resume)
    check_writable(folder)
    copies = corrupted(
        to_arrays(part(data, train=False)).to(device),
        types=kinds,
        strength=strength,
        seed=seed,
        textures=None if frost is None else load_frost(frost),
    )
    chosen = layout or ("arrays" if strength == "cifar" else "folders")
    terminal = console()
    bar = Progress(console=terminal, transient=True, disable=quiet)
    with resumable(folder), bar as progress:
        task = progress.add_task("corrupting", total=len(copies))

        def done(cell: tuple[str, int]) -> None:
            progress.update(task, advance=1, description=f"{cell[0]} {cell[1]}")

        write_corrupted(copies, folder, layout=chosen, resume=resume, done=done)
    terminal.print(f"{len(copies)} corrupted copies in {folder}")
    terminal.print(f"next: tepui evaluate RUN --shifted {folder}")


def _kinds(types: Sequence[str]) -> list[str | Corruption]:
    """Return corruptions as they are named, with those of one's own imported."""
    own = own_functions("--types", filter(is_own, types))
    for name in own:
        rule = "name functions that are called otherwise than tepui's corruptions"
        require(name not in CORRUPTIONS, "--types", rule, name)
    return [own[kind.rpartition(".")[2]] if is_own(kind) else kind for kind in types]
