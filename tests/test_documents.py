"""The examples in the documents run."""

import ast
import importlib
import re
import runpy

import pytest

from elsewhere import check_elsewhere
from faults.totals import read_totals
from pages import MADE, PAGES, ROOT, blocks, check_shown, commands, name_of
from tepui.cli.main import GROUPS
from tepui.papers.recipe import PAPERS, names

# Code, and what it prints where that is shown below it.
EXAMPLE = r"```python\n(.*?)```\n(?:\n```text\n(.*?)```\n)?"
FOUND = {
    f"{name_of(page)}-{number}": example
    for page in PAGES
    for number, example in enumerate(re.findall(EXAMPLE, page.read_text(), re.S))
}
HOME = FOUND.pop("docs/index.md-0")  # the one of README
LINES = [line for page in PAGES for line in commands(page)]
FIRST_READ = "README"  # the other pages take minutes
EXAMPLES = [
    pytest.param(
        *example, id=name, marks=[pytest.mark.slow] * (not name.startswith(FIRST_READ))
    )
    for name, example in FOUND.items()
]
# Pages with code that is no example to run by itself: how many blocks, and who runs
# them, or why nobody does.
FRAGMENTS = {
    "docs/exporting.md": (
        2,
        "go on elsewhere; tests/elsewhere.py, export/test_tables.py",
    ),
    "docs/elsewhere.md": (
        4,
        "tests/ecosystem/test_members_elsewhere.py; reaches the hub",
    ),
    "docs/extending.md": (8, "tests/test_examples.py"),
    "docs/models.md": (1, "tests/ecosystem/test_adapters.py"),
    "docs/many_machines.md": (
        3,
        "tests/training/test_data_parallel.py, tests/test_many_machines.py",
    ),
    "docs/sam_everywhere.md": (6, "tests/ecosystem/test_sam_everywhere.py"),
}


@pytest.mark.parametrize(("code", "shown"), EXAMPLES)
def test_example_runs(code, shown, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    space = {"__name__": "example"}
    exec(compile(code, "example", "exec"), space)
    printed = capsys.readouterr().out
    assert printed
    if shown:
        check_shown(printed, shown)
    for file in tmp_path.glob("*.onnx"):
        check_elsewhere(file, space["raw"], space["out"], tmp_path)


def test_code_runs_or_is_known_not_to():
    shown = {name_of(page): [each for each, _ in blocks(page)] for page in PAGES}
    assert len(FOUND) + 1 == sum(each.count("python") for each in shown.values())
    found = {name: each.count("py") for name, each in shown.items() if "py" in each}
    assert found == {name: number for name, (number, _) in FRAGMENTS.items()}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    made = {MADE / f"{name}.md" for name in (*PAPERS, "claims")}
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
        place = page.parent / target
        assert place in made or place.exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_headings_find_one(page):
    links = r"\]\((?!https?:)((?:[^)#]*\.md)?)#([^)]+)"
    for target, anchor in re.findall(links, page.read_text()):
        place = page.parent / target if target else page
        heads = re.findall(r"^#+ (.+)$", place.read_text(), re.M)
        slugs = {re.sub(r"[^\w\- ]", "", head).lower() for head in heads}
        assert anchor in {re.sub(r"[ -]+", "-", slug) for slug in slugs}, anchor


@pytest.mark.parametrize("paper", PAPERS)
def test_a_page_of_results_is_made_and_its_links_lead_somewhere(paper):
    page = runpy.run_path(str(ROOT / "docs" / "make_results.py"))["page"](paper)
    assert page.count("\n## ") == sum(name.startswith(paper) for name in names())
    links = {*re.findall(r"\]\(([^)#]+)", page)} - {"claims.md"}
    assert links
    assert all((MADE.parent / link.removeprefix("../")).exists() for link in links)


def test_runs_states_the_committed_totals_of_the_fault_suites():
    totals = read_totals(ROOT / "research" / "reliability.json")
    page = (ROOT / "docs" / "runs.md").read_text()
    kills, disk, damage = (
        f"{sum(totals[suite].counts.values()):,}"
        for suite in ("kills", "disk", "files")
    )
    assert f"Of {kills} kills all" in page
    assert f"so did {disk} errors of the disk. Of {damage} damaged files" in page
    assert not any(found.wrong for found in totals.values())


def test_readme_and_home_show_one_example_and_what_it_prints():
    assert FOUND["README.md-0"] == HOME
    assert HOME[1]


def test_every_command_is_shown():
    shown = {line.split()[1] for line in LINES if line.startswith("tepui ")}
    assert {*" ".join(GROUPS.values()).split()} <= shown


WALKS = (
    (ROOT / "docs/architecture.md")
    .read_text()
    .split("## Four walks")[1]
    .split("## A")[0]
)
STEP = r"`([\w/]+)\.py`:\s+`([\w.]+)`"
STEPS = re.findall(STEP, WALKS)


@pytest.mark.parametrize(("file", "name"), STEPS)
def test_steps_of_the_walks_are_there(file, name):
    part = importlib.import_module(f"tepui.{file.replace('/', '.')}")
    for attribute in name.split("."):
        part = getattr(part, attribute)
    defined = getattr(part, "__module__", f"tepui.{file.replace('/', '.')}")
    assert defined.endswith((file.replace("/", "."), "recipe"))


def used_in(file):
    """Return names and attributes that a file's code reads or imports."""
    tree = ast.parse((ROOT / "src" / "tepui" / f"{file}.py").read_text())
    names, attributes = set(), set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Load()) | ast.alias(name=name):
                names.add(name)
            case ast.Attribute(attr=name, ctx=ast.Load()):
                attributes.add(name)
            case ast.Call(
                func=ast.Name(id="getattr"), args=[_, ast.Constant(name), *_]
            ):
                attributes.add(name)
    return names, attributes


@pytest.mark.parametrize("walk", re.split(r"^\*\*", WALKS, flags=re.MULTILINE)[1:])
def test_a_step_is_used_by_one_before_it(walk):
    steps = re.findall(STEP, walk)
    for number, (_, name) in enumerate(steps[1:], 1):
        before = zip(*(used_in(file) for file, _ in steps[:number]), strict=True)
        names, attributes = (set().union(*parts) for parts in before)
        called = name.removesuffix(".forward")  # a module is called, not its forward
        method = called.rpartition(".")[2]
        assert method in (attributes if "." in called else names | attributes), name


def test_a_walk_takes_at_most_a_dozen_steps():
    lengths = [int(number) for number in re.findall(r"^(\d+)\. ", WALKS, re.MULTILINE)]
    assert max(lengths) <= 12
    assert lengths.count(1) == 4
