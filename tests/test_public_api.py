"""What is public is listed, and what is listed is documented."""

import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import tepui

PACKAGES = [
    importlib.import_module(f"tepui.{item.name}")
    for item in pkgutil.iter_modules(tepui.__path__)
    if item.ispkg
]
LISTED_MODULES = [
    getattr(tepui, name)
    for name in tepui.__all__
    if isinstance(getattr(tepui, name), ModuleType)
]


def exports(module):
    """Public names of a package that are not its own parts, late ones too."""
    for name in getattr(module, "__all__", ()):
        getattr(module, name)
    return {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }


def public_objects():
    """Every public name with its object, by its full name."""
    found = {f"tepui.{name}": getattr(tepui, name) for name in exports(tepui)}
    for module in [*PACKAGES, *LISTED_MODULES, tepui.tracking]:
        names = getattr(module, "__all__", None) or [
            name
            for name in exports(module)
            if getattr(getattr(module, name), "__module__", None) == module.__name__
        ]
        found |= {f"{module.__name__}.{name}": getattr(module, name) for name in names}
    return found


def documented_parts():
    """Every public callable, and the methods and properties a class defines."""
    for name, value in sorted(public_objects().items()):
        if inspect.isclass(value) or inspect.isfunction(value):
            yield name, value
        if inspect.isclass(value):
            for key, part in vars(value).items():
                plain = getattr(part, "__func__", part)
                public = not key.startswith("_")
                if public and (inspect.isfunction(plain) or isinstance(part, property)):
                    yield f"{name}.{key}", part


def test_all_of_tepui_lists_every_export_and_nothing_else():
    listed = {name for name in tepui.__all__ if not name.startswith("_")}
    modules = {module.__name__.removeprefix("tepui.") for module in LISTED_MODULES}
    assert listed - modules == exports(tepui)
    assert set(tepui.__all__) - listed == {"__version__"}


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_all_of_a_package_lists_every_export_and_nothing_else(package):
    assert sorted(getattr(package, "__all__", ())) == sorted(exports(package))


def test_the_reference_shows_what_is_listed_and_nothing_else():
    """A page shows all names that a module lists, so that each must list some."""
    pages = (Path(__file__).parents[1] / "docs" / "reference").glob("*.md")
    shown = [
        name
        for page in pages
        for name in re.findall(r"^::: (\S+)$", page.read_text(), re.MULTILINE)
    ]
    listing = {module.__name__ for module in PACKAGES if hasattr(module, "__all__")}
    listing |= {"tepui.optim", "tepui.tracking"}
    assert sorted(shown) == sorted(listing)
    assert all(importlib.import_module(name).__all__ for name in shown)


def test_what_tepui_exports_is_listed_by_one_of_its_packages():
    listed = {name for package in PACKAGES for name in getattr(package, "__all__", ())}
    own = {module.__name__.rpartition(".")[2] for module in LISTED_MODULES}
    assert set(tepui.__all__) - own - listed == {"__version__"}


def test_every_public_callable_has_a_docstring():
    silent = [name for name, part in documented_parts() if not (part.__doc__ or "")]
    assert silent == []


def test_docstrings_are_written_and_not_made_by_dataclass():
    made = [
        name
        for name, part in documented_parts()
        if re.match(rf"{name.rpartition('.')[2]}\(", part.__doc__ or "")
    ]
    assert made == []


def test_every_public_function_documents_its_arguments():
    missing = [
        f"{name}({argument})"
        for name, part in public_objects().items()
        if inspect.isfunction(part)
        for argument in inspect.signature(part).parameters
        if not re.search(rf"^\s+\*{{0,2}}{argument}:", part.__doc__ or "", re.MULTILINE)
    ]
    assert missing == []


@pytest.mark.slow
def test_packages_that_are_loaded_later_are_there_after_one_import():
    script = """
import sys, tepui
print("tepui.studies" in sys.modules, hasattr(tepui, "fitt"))
print(tepui.studies.compare.__name__, tepui.report.write_report.__name__)
"""
    run = [sys.executable, "-c", script]
    out = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    assert out.split() == ["False", "False", "compare", "write_report"]
    for package in PACKAGES:
        name = package.__name__.removeprefix("tepui.")
        assert name == "cli" or getattr(tepui, name) is package
