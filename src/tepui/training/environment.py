"""Where a run was made: versions, hardware and the command."""

import platform
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tepui.core.provenance import command_line
from tepui.core.version import __version__


def environment_of(device: torch.device) -> dict[str, Any]:
    """Return versions and hardware, for the record."""
    name = platform.processor() or platform.machine()
    program = Path(sys.argv[0]).name.replace("__main__.py", "tepui")
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
    return {
        "tepui": __version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "hardware": name,
        "command": command_line([program, *sys.argv[1:]]),
    }
