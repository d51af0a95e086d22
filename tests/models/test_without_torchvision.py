"""A stand-in for torchvision, there while a library that wants it is imported."""

import importlib
import sys
from importlib.util import find_spec

import pytest

from tepui.models.without_torchvision import stand_in_for_torchvision

LIBRARY = """
import torchvision.transforms.functional as F
from torchvision import transforms
from torchvision.ops.misc import FrozenBatchNorm2d
from torchvision.transforms.functional import InterpolationMode

MODES = {InterpolationMode.BICUBIC: "bicubic"}

class Own(transforms.ToTensor):
    pass

def is_frozen(layer):
    return isinstance(layer, FrozenBatchNorm2d)
"""


@pytest.fixture
def library(tmp_path, monkeypatch):
    """The name of a module that imports torchvision, which fails to load."""
    broken = tmp_path / "torchvision"
    broken.mkdir()
    (broken / "__init__.py").write_text(
        "import torchvision.part\n"
        "raise RuntimeError('operator torchvision::nms does not exist')"
    )
    (broken / "part.py").touch()
    (tmp_path / "wants_torchvision.py").write_text(LIBRARY)
    for name in [n for n in sys.modules if n.partition(".")[0] == "torchvision"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)
    yield "wants_torchvision"
    sys.modules.pop("wants_torchvision", None)


def test_a_library_is_imported_and_the_stand_in_is_gone(library):
    with pytest.raises(RuntimeError, match="nms does not exist"):
        importlib.import_module(library)
    with stand_in_for_torchvision():
        module = importlib.import_module(library)
    assert module.is_frozen(object()) is False
    assert list(module.MODES.values()) == ["bicubic"]
    with pytest.raises(ImportError, match=r"Own needs torchvision, which cannot be"):
        module.Own()
    with pytest.raises(RuntimeError, match="nms does not exist"):
        importlib.import_module("torchvision")
    assert find_spec("torchvision") is not None  # the broken one, not the stand-in


def test_an_error_inside_leaves_nothing_behind(library):
    with pytest.raises(ValueError, match="stop"), stand_in_for_torchvision():
        raise ValueError("stop")
    left = [name for name in sys.modules if name.partition(".")[0] == "torchvision"]
    assert all("stand" not in str(sys.modules[name]) for name in left)
    assert "torchvision" not in left
