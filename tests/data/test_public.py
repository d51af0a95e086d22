import subprocess
import sys
from types import ModuleType

import tepui.data


def test_all_lists_every_public_name():
    found = {
        name
        for name, value in vars(tepui.data).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    assert found == set(tepui.data.__all__)


def test_import_stays_light():
    script = (
        "import sys, tepui.data, tepui.models\n"
        "heavy = {'sklearn', 'scipy', 'matplotlib', 'torchvision', 'PIL'}\n"
        "print(*sorted(heavy & set(sys.modules)), end='')"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    assert done.stdout == ""
