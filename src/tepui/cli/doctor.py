"""``tepui doctor``: what this machine has for tepui."""

import importlib.util
import os
import platform
import shutil
from importlib import metadata
from pathlib import Path

from tepui.cli.console import console, table
from tepui.core.version import __version__

# Not read from the installed package, whose own list may be older than this code.
EXTRAS = {
    "vision": ("timm", "huggingface_hub"),
    "text": ("transformers",),
    "export": ("onnx", "onnxscript", "onnxruntime"),
    "hub": ("datasets", "huggingface_hub"),
    "tables": ("pandas", "pyarrow"),
    "track": ("mlflow", "tensorboard", "wandb"),
    "ray": ("ray",),
    "slurm": ("submitit",),
}


def doctor() -> None:
    """Say what is installed, which extras work, and where data lie.

    Nothing is downloaded or written. Such as:

        tepui doctor
        tepui data
        tepui verify runs/sam
    """
    extras = [(name, state_of(name, modules)) for name, modules in EXTRAS.items()]
    terminal = console()
    terminal.print(table("this machine", ("what", "found"), facts().items()))
    terminal.print(table("extras", ("extra", "found"), extras))


def facts() -> dict[str, str]:
    """Return what there is, by name."""
    import torch

    from tepui.data.published import data_folder

    return {
        "tepui": __version__,
        "Python": platform.python_version(),
        "torch": torch.__version__,
        "system": f"{platform.system()} on {platform.machine()}",
        "device": device_in_words(),
        "threads": f"{torch.get_num_threads()} of {os.cpu_count()} processors",
        "data": folder_in_words(data_folder()),
        "free for runs": f"{shutil.disk_usage(Path.cwd()).free / 1e9:.1f} GB",
    }


def device_in_words() -> str:
    """Return where training would run."""
    import torch

    if torch.cuda.is_available():
        numbers = range(torch.cuda.device_count())
        return ", ".join(map(torch.cuda.get_device_name, numbers))
    built = "built for CUDA" if torch.version.cuda else "built without CUDA"
    return f"CPU (no GPU is seen; torch is {built})"


def folder_in_words(folder: Path) -> str:
    """Return a folder and what is in it."""
    if not folder.is_dir():
        return f"{folder} (nothing there yet; tepui data shows what can be had)"
    sets = sorted(path.name for path in folder.iterdir() if path.is_dir())
    return f"{folder} ({', '.join(sets) or 'empty'})"


def state_of(extra: str, modules: tuple[str, ...]) -> str:
    """Return whether an extra is there, or how it comes.

    Modules are looked for and not imported: that would take long.
    """
    from tepui.core.extras import remedy
    from tepui.models.from_timm import timm_alone

    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if not missing:
        return ", ".join(f"{name} {_version(name)}" for name in modules)
    then = timm_alone() if "timm" in missing else None
    return f"missing {', '.join(missing)}: {remedy(extra, then)}"


def _version(module: str) -> str:
    """Return a module's version; a question mark for one that no package brought."""
    package = metadata.packages_distributions().get(module)
    return "?" if package is None else metadata.version(package[0])
