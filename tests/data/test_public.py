import inspect
import re
import subprocess
import sys
from types import ModuleType

import pytest

import tepui.data
from tepui.data.corruptions.files import CorruptedFiles

IN_FILES = [
    item
    for _, item in inspect.getmembers(tepui.data, inspect.isclass)
    if hasattr(item, "origin")
]


def test_all_lists_every_public_name():
    found = {
        name
        for name, value in vars(tepui.data).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    assert found == set(tepui.data.__all__)


@pytest.mark.parametrize("dataset", IN_FILES)
def test_sets_in_files_are_asked_for_alike(dataset, tmp_path):
    names = list(inspect.signature(dataset).parameters)
    corrupted = issubclass(dataset, CorruptedFiles)
    expected = ["root", "download"] if corrupted else ["root", "train", "download"]
    assert names[: len(expected)] == expected
    part = {} if corrupted else {"train": False}
    with pytest.raises(FileNotFoundError, match=f"{dataset.__name__} is not in"):
        dataset(tmp_path, **part)


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


def test_downloads_come_by_https_and_with_a_sha256_where_one_is_known():
    kinds = [getattr(tepui.data, name) for name in tepui.data.__all__]
    origins = [kind.origin for kind in kinds if hasattr(kind, "origin")]
    downloads = {item.file: item for origin in origins for item in origin.downloads}
    assert len(downloads) >= 11
    assert all(item.url.startswith("https://") for item in downloads.values())
    hashes = {name: item.known_hash for name, item in downloads.items()}
    known = r"sha256:[0-9a-f]{64}"
    without = [name for name, found in hashes.items() if not re.fullmatch(known, found)]
    assert without == ["Tiny-ImageNet-C.tar"]
    assert len({*hashes.values()}) == len(downloads)
