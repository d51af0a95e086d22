"""Every command of README and the documents runs, page by page, in its order.

What takes long as printed runs with other options that make it short; a slow test
runs it as printed where that takes minutes. What cannot run here is listed.
"""

import importlib.util
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from page_inputs import DATA, bring, expect_miniatures, expect_nothing, write_inputs
from pages import PAGES, ROOT, SHELLS, blocks, commands, name_of
from processes import LAUNCHER, environment_here
from tepui.cli.main import build, main

LANGUAGES = {*SHELLS, "python", "py", "text", "yaml"}
# Pages whose commands another file runs, with what it asserts of each.
ELSEWHERE = {"docs/from_released_code.md": "tests/cli/test_released_commands.py"}
MINUTES = "takes minutes; a slow test runs it as printed"
HOURS = "takes hours as printed"
PLAN = "takes hours; its recipe runs in tests/papers/test_recipes.py"


class Shorter(NamedTuple):
    """Options that take the place of those of lines that match, and why."""

    lines: str
    options: str
    reason: str


class Absent(NamedTuple):
    """Lines that cannot run here, and why."""

    lines: str
    reason: str


SMALL_NET = "--model MLP(hidden=[8])"
OWN_NET = r"(?!.*(--model|--extractor|extractor=))"
SMALL = "ImageFolder(path=photos,size=16)"
BESIDE = "UnlabeledFolder(path=new_photos,size=16)"
QUICK = "--epochs 1 --set progress=none"
SHORTER = [
    Shorter(r"(tepui|torchrun .*) train (?!.*--epochs)", QUICK, MINUTES),
    Shorter(r"tepui train .*--epochs", QUICK, HOURS),
    Shorter(r"tepui train (?!.*--members)", "--members 2", MINUTES),
    Shorter(rf"(tepui|torchrun .*) (train|compare) {OWN_NET}", SMALL_NET, MINUTES),
    Shorter(
        r"tepui compare",
        "--epochs 1 --ensembles 1 --members 2 --set corruptions=none sharpness=0",
        MINUTES,
    ),
    Shorter(r"tepui compare .*at_once", "--set at_once=1", MINUTES),
    Shorter(r"tepui sweep --", "--epochs 1 --members 1 --workers 1", MINUTES),
    Shorter(r"tepui (train|sweep) .*ResNet", "--model ResNet18(width=2)", HOURS),
    Shorter(r"tepui train .*ViTTiny", "--model ViTTiny(depth=1)", HOURS),
    Shorter(
        r"tepui .*--data 'ImageFolder\(path=photos, size=64", f"--data {SMALL}", HOURS
    ),
    Shorter(r"tepui .*unlabeled=UnlabeledFolder", f"--set unlabeled={BESIDE}", HOURS),
    Shorter(r"tepui measure", "--samples 8", MINUTES),
    Shorter(
        r"tepui evaluate (a\.ckpt|runs/(heads|mine|photos))",
        "--corruptions none",
        MINUTES,
    ),
    Shorter(r"tepui theory check", "--matrices 2", MINUTES),
    Shorter(r"tepui train .*--model Albert", "--model Albert(width=8,heads=1)", HOURS),
    Shorter(r"tepui reproduce \w+(/\w+)*( \w+/\w+)*$", "--dry-run", PLAN),
    Shorter(r"tepui reproduce .*--size (paper|medium)", "--dry-run", PLAN),
    Shorter(r"tepui reproduce .*smoke.*--(workers|executor)", "--dry-run", MINUTES),
    Shorter(r"tepui reproduce (sed|rethinking)\b", "--size smoke", MINUTES),
    Shorter(r"tepui reproduce .*--store /shared", "--size smoke", PLAN),
    Shorter(r"tepui reproduce .*--rho", "--dry-run", HOURS),
    Shorter(r"tepui reproduce examples", "--dry-run", MINUTES),
    Shorter(r"tepui sweep .*ImageFolder", f"--data {SMALL}", HOURS),
    Shorter(r"torchrun .*data_parallel", "--set data_parallel=1", MINUTES),
    Shorter(r"torchrun --nnodes", "--out runs/eight", "tests/test_many_machines.py"),
]
ABSENT = [
    Absent(r"tepui --install-completion", "writes into the files of a shell"),
    Absent(r"pip install|python3 -m venv", "reaches the network"),
    Absent(r"make (demo|test)", "makes environments, and runs these tests"),
    Absent(r"tepui data fetch", "reaches the network; see tests/cli/test_data.py"),
    Absent(r"tepui .*albert-base-v2", "reaches the network"),
    Absent(r"tepui .*track=", "needs libraries that make test does not install"),
]
# What a page's commands leave behind, and some of what stands in it.
MADE = {
    "docs/tutorial/five_minutes.md": {
        "predictions.csv": "2.png",  # the last of three new photos
        "runs/photos/report.html": "</html>",
        "runs/compared/report.html": "</html>",
    },
    "docs/many_machines.md": {
        "runs/two/evaluations/clean.json": "accuracy",
        "runs/shared/outcome.json": "finishing",
    },
}
# Commands that read the options which a page shows as a file.
CONFIGURED = {"docs/models.md": ["train"]}
KUBERNETES = "docs/many_machines.md"  # whose file tests/test_many_machines.py reads
LIBRARIES = {"Ray": "ray", "Slurm": "submitit"}
few_samples = pytest.mark.filterwarnings("ignore:temperature is at its bound")
SHOWING = [page for page in PAGES if commands(page)]
LINES = [line for page in SHOWING for line in commands(page)]


def present(page):
    """Return a page's commands but for those that cannot run here."""
    listed = "|".join(each.lines for each in ABSENT)
    return [line for line in commands(page) if not re.match(listed, line)]


def shorter_by(line):
    """Return what makes a line short."""
    return [each for each in SHORTER if re.match(each.lines, line)]


def test_blocks_say_what_they_hold():
    languages = {language for page in PAGES for language, _ in blocks(page)}
    assert languages == LANGUAGES


@pytest.mark.parametrize("each", [*SHORTER, *ABSENT], ids=lambda each: each.lines)
def test_what_is_listed_is_on_a_page(each):
    assert any(re.match(each.lines, line) for line in LINES)


@pytest.mark.parametrize(("name", "words"), CONFIGURED.items(), ids=[*CONFIGURED])
def test_files_of_options_are_understood(name, words, tmp_path):
    (text,) = (text for kind, text in blocks(ROOT / name) if kind == "yaml")
    (tmp_path / "my.yaml").write_text(text)
    build().parse_args([*words, "--config", str(tmp_path / "my.yaml")])


def test_no_other_page_has_files_of_options():
    kinds = {name_of(page): {kind for kind, _ in blocks(page)} for page in PAGES}
    found = {name for name, shown in kinds.items() if "yaml" in shown}
    assert found == {*CONFIGURED, KUBERNETES}


def is_printed(line):
    """Return whether a slow test runs a line as printed."""
    library = re.search(r"--executor '?(\w+)", line)
    known = library is None or importlib.util.find_spec(LIBRARIES[library[1]])
    return bool(known) and all(each.reason == MINUTES for each in shorter_by(line))


def with_options(words, options):
    """Return words with options in the place of their own; of --set the last counts."""
    for option in options:
        if option.startswith("--") and option != "--set":
            first = words.index(option) if option in words else len(words)
            after = [n for n in range(first + 1, len(words)) if words[n][:2] == "--"]
            words = words[:first] + words[min(after, default=len(words)) :]
    return [*words, *options]


def run(line, as_printed):
    """Run a line: in this process, unless torchrun is to start others."""
    words = shlex.split(line)
    for each in [] if as_printed else shorter_by(line):
        words = with_options(words, each.options.split())
    match words:
        case ["tepui", *rest]:
            main(rest)
        case ["torchrun", *rest] if as_printed:
            started = [*LAUNCHER, *rest]
            subprocess.run(started, env=environment_here(), check=True, timeout=500)
        case ["torchrun", *rest]:
            main(rest[rest.index("tepui") + 1 :])
        case ["cd", folder]:
            os.chdir(folder)
        case _:
            raise AssertionError(f"{line}: nothing here runs or excuses it")
    if "--out" in words and "--dry-run" not in words:
        assert Path(words[len(words) - words[::-1].index("--out")]).exists()


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """A folder with what the pages speak of."""
    folder = tmp_path_factory.mktemp("inputs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_inputs(folder)
        yield folder


@pytest.fixture
def here(inputs, tmp_path, monkeypatch):
    """An empty folder to stand in; what is imported there is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(inputs)
    monkeypatch.setattr("webbrowser.open", lambda address: True)
    before = {*sys.modules}
    yield tmp_path
    for name in {*sys.modules} - before:
        file = Path(getattr(sys.modules[name], "__file__", None) or "").resolve()
        if file.is_relative_to(inputs):
            del sys.modules[name]


def run_page(page, inputs, folder, patch, as_printed=False):
    """Run a page's lines in a folder, as printed or shortened.

    Where a page trains on published data, their miniatures are there; where it makes
    figures of papers, they are not, so that stand-ins take their place.
    """
    lines = present(page)
    if any(line.startswith("tepui reproduce") for line in lines):
        expect_nothing(patch)
    else:
        expect_miniatures(inputs / DATA, patch)
    bring(inputs, folder, "\n".join(lines))
    for line in lines:
        try:
            run(line, as_printed and is_printed(line))
        except SystemExit as end:
            raise AssertionError(f"{line} ends with {end}") from end
    for file, content in MADE.get(name_of(page), {}).items():
        assert content in Path(file).read_text()


HERE = [page for page in SHOWING if name_of(page) not in ELSEWHERE]
LONG = [
    page
    for page in HERE
    if any(shorter_by(line) and is_printed(line) for line in present(page))
]


@few_samples
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.slow] * (name_of(page) != "README.md"))
        for page in HERE
    ],
    ids=name_of,
)
def test_commands_of_a_page_run(page, inputs, here, monkeypatch):
    run_page(page, inputs, here, monkeypatch)


@few_samples
@pytest.mark.filterwarnings("ignore:member .* may not have learned")  # one of fifty
@pytest.mark.slow
@pytest.mark.parametrize("page", LONG, ids=name_of)
def test_commands_of_a_page_run_as_printed(page, inputs, here, monkeypatch):
    run_page(page, inputs, here, monkeypatch, as_printed=True)
