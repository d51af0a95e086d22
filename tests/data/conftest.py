"""Real data sets, where the environment says they are."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tepui.data.published import unpack

VARIABLE = "TEPUI_SHARED_DATA"


@pytest.fixture(scope="session")
def shared_data():
    """The folder of real data sets; see CONTRIBUTING."""
    named = os.environ.get(VARIABLE)
    if not named:
        pytest.skip(f"{VARIABLE} names no folder of real data")
    return Path(named)


@pytest.fixture(scope="session")
def shared_cifar(shared_data, tmp_path_factory):
    """CIFAR in the official binary layout."""
    out = tmp_path_factory.mktemp("cifar")
    subprocess.run([sys.executable, shared_data / "unpack.py", out], check=True)
    return out


@pytest.fixture(scope="session")
def shared_tiny_imagenet(shared_data, tmp_path_factory):
    """TinyImageNet's validation images."""
    out = tmp_path_factory.mktemp("tiny")
    archive = shared_data / "tiny_imagenet_val" / "tin_val.tar.xz"
    unpack(archive, out / "tiny-imagenet-200")
    return out


@pytest.fixture(scope="session")
def shared_textures(shared_data, tmp_path_factory):
    """Photographs of textures, one folder per class."""
    out = tmp_path_factory.mktemp("textures")
    unpack(shared_data / "textures" / "dtd10_160_q85.tar.xz", out)
    return out / "images"
