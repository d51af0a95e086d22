"""``tepui corrupt``: write corrupted copies of a data set in a published layout."""

from pathlib import Path
from typing import Literal

from tepui.cli.console import console
from tepui.cli.values import Data, Text, Whole, Words


def corrupt(
    *,
    data: Data = Text("Digits", "data"),  # noqa: B008 - a frozen value
    out: Path | None = None,
    types: Words | None = None,
    strength: Literal["cifar", "tiny_imagenet", "imagenet"] = "cifar",
    layout: Literal["arrays", "folders"] | None = None,
    seed: Whole = 0,
    device: str = "cpu",
) -> None:
    """Write corrupted copies of a data set.

    Such as:

        tepui corrupt --data Digits --out data/digits-c
        tepui corrupt --data 'ImageFolder(path=photos)' --types fog snow
        tepui corrupt --data TinyImageNet --strength tiny_imagenet

    Args:
        data: The data set; its test part is used.
        out: The folder; the next free runs/corrupt-NNN by default.
        types: Which corruptions, such as --types fog snow; the fifteen standard ones
            by default. Functions of yours by their paths too: --types fog
            mypackage.my_corruption
        strength: Which benchmark's parameters to use.
        layout: arrays (TYPE.npy and labels.npy, as CIFAR-10-C) or folders
            (TYPE/SEVERITY/CLASS/NAME.JPEG, as ImageNet-C); by default arrays at the
            strength of CIFAR, else folders.
        seed: Seed of all random draws.
        device: Where to compute.
    """
    from tepui.cli.folders import folder_for
    from tepui.core.checks import require
    from tepui.core.spec import PATH
    from tepui.data import (
        CORRUPTIONS,
        STANDARD,
        corrupted,
        to_arrays,
        write_corrupted,
    )
    from tepui.data.sources import part

    kinds = [
        Text(kind, "function").read() if PATH.fullmatch(kind) else kind
        for kind in types or STANDARD
    ]
    taken = {each.__name__ for each in kinds if callable(each)} & {*CORRUPTIONS}
    rule = "name functions that are called otherwise than tepui's corruptions"
    require(not taken, "--types", rule, ", ".join(taken))
    folder = folder_for("corrupt", out, False)
    copies = corrupted(
        to_arrays(part(data.read(), train=False)).to(device),
        types=kinds,
        strength=strength,
        seed=seed,
    )
    chosen = layout or ("arrays" if strength == "cifar" else "folders")
    terminal = console()
    with terminal.status(f"writing into {folder}"):
        write_corrupted(copies, folder, layout=chosen)
    terminal.print(f"{len(copies)} corrupted copies in {folder}")
    terminal.print(f"next: tepui evaluate RUN --copies {folder}")
