"""The extensions of the documents: short, on public names alone, checked and run."""

import ast
import importlib
import re
import shlex
import sys
from pathlib import Path
from textwrap import dedent

import pytest
import torch
from torch import nn

from pages import PAGES
from tepui import Ensemble, fit
from tepui.cli.main import main
from tepui.data import Arrays, Batch
from tepui.losses import cross_entropy
from tepui.methods import SAM, DeepEnsemble
from tepui.testing import (
    check_corruption,
    check_dataset,
    check_measure,
    check_method,
    check_metric,
)
from tepui.training.passes import MemberPasses

FOLDER = Path(__file__).parents[1] / "docs" / "examples"
PAGE = FOLDER.parent / "extending.md"
MOST_LINES = {
    "bagging": 45,
    "lookahead": 45,
    "negative_correlation": 45,
    "peer_weighting": 50,
    "recipe": 90,
}
FILES = sorted(FOLDER.glob("*.py"))

# A recipe is shown in papers.md and run by the tests of `tepui reproduce`.
EXAMPLES = [file for file in FILES if file.stem != "recipe"]

every_file = pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
every_example = pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)


@pytest.fixture(autouse=True)
def here(monkeypatch):
    """Stand in the folder of the examples, and forget them afterwards."""
    monkeypatch.chdir(FOLDER)
    monkeypatch.setattr(sys, "path", [str(FOLDER), *sys.path])
    yield
    for file in FILES:
        sys.modules.pop(file.stem, None)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with a run to evaluate and to measure."""
    folder = tmp_path_factory.mktemp("runs")
    options = ["--members", "2", "--epochs", "1", "--set", "progress=none"]
    main(["train", *options, "--out", str(folder / "mine")])
    return folder


@every_file
def test_is_short(file):
    assert len(file.read_text().splitlines()) <= MOST_LINES.get(file.stem, 30)


@every_example
def test_the_page_shows_it(file):
    """The site puts the file in the place of this line."""
    assert f'```py\n--8<-- "examples/{file.name}"\n```' in PAGE.read_text()


@every_file
def test_stands_on_public_names(file):
    assert_public(file.read_text())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pages_stand_on_public_names(page):
    for code in re.findall(r"```py(?:thon)?\n(.*?)```", page.read_text(), re.DOTALL):
        assert_public(dedent(code))


def assert_public(code):
    """Assert that code imports from tepui only what a package lists."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("tepui"):
            module = importlib.import_module(node.module)
            assert {name.name for name in node.names} <= {*public(module)}
        if isinstance(node, ast.Import):
            parts = [n.name.split(".") for n in node.names if n.name[:5] == "tepui"]
            assert all(len(names) < 3 for names in parts)


def public(module):
    """Return the names of a package or a module right below tepui, and no other's."""
    below_tepui = module.__name__.count(".") < 2
    return getattr(module, "__all__", ()) if below_tepui else ()


def test_lookahead_keeps_the_contract():
    check_method(importlib.import_module("lookahead").Lookahead(every=2))


@pytest.mark.slow
def test_negative_correlation_keeps_the_contract():
    kind = importlib.import_module("negative_correlation").NegativeCorrelation
    check_method(kind(base=SAM(rho=0.05)))


@pytest.mark.slow
def test_peer_weighting_keeps_the_contract_and_equal_weights_change_nothing():
    kind = importlib.import_module("peer_weighting").PeerWeighting
    check_method(kind(power=0.5))
    histories = [losses_by(m) for m in (kind(power=0.0), kind(), DeepEnsemble())]
    assert histories[0] == histories[2] != histories[1]


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_bagging_keeps_the_contract_and_draws_a_bag_for_every_member(share):
    method = importlib.import_module("bagging").Bagging(share=share)
    check_method(method)
    inputs, targets = torch.rand(26, 6), torch.arange(26) % 3
    how = {"loss": cross_entropy, "learning_rate": torch.tensor(0.1), "samples": 26}
    seeds = (1, 2, 1)
    members = [MemberPasses(nn.Linear(6, 3), seed=seed, **how) for seed in seeds]
    bags = [method.start(member)["counts"] for member in members]
    assert torch.equal(bags[0], bags[2])
    assert not torch.equal(bags[0], bags[1])
    assert [bag.sum().item() for bag in bags] == pytest.approx([26] * 3)
    member, times = members[0], (bags[0] * share).round().long()
    member.state = {"counts": bags[0]}
    drawn = torch.arange(26).repeat_interleave(times)
    found = method.gradient(member, Batch(inputs, targets, torch.arange(26))).values
    bag = Batch(inputs[drawn], targets[drawn], drawn)
    for value, expected in zip(found, member.gradient(bag).values, strict=True):
        assert torch.allclose(value, expected, atol=1e-6)


def losses_by(method):
    ensemble = Ensemble.build(lambda: nn.Linear(2, 3), members=2, seed=1)
    x = torch.arange(60.0).view(30, 2) / 60
    data = Arrays(x, torch.arange(30) % 3)
    run = fit(ensemble, data, method=method, epochs=2, batch_size=8, progress="none")
    return [record.loss for record in run.history]


def test_the_metric_keeps_the_contract():
    metric = importlib.import_module("metric")
    check_metric(metric.margin, stream=metric.Margin)


def test_the_measure_keeps_the_contract():
    check_measure(importlib.import_module("measure").gradient_norm)


def test_the_corruption_keeps_the_contract():
    check_corruption(importlib.import_module("corruption").salt)


@pytest.mark.parametrize("train", [True, False])
def test_the_data_set_keeps_the_contract(train):
    check_dataset(importlib.import_module("dataset").TwoMoons(train=train))


def commands(file):
    """Return the commands that a file's docstring shows."""
    lines = ast.get_docstring(ast.parse(file.read_text())).splitlines()
    return [
        shlex.split(line)[1:] for line in lines if line.strip().startswith("tepui ")
    ]


def ran(words, runs, out):
    """Run a command as written, but for one epoch and into another folder."""
    found = ["10" if word == "100" else word for word in words]
    found = [word.replace("runs/mine", str(runs / "mine")) for word in found]
    found = [word.replace("runs/", f"{out}/") for word in found]
    if words[0] == "train":
        found += ["--epochs", "1", "--set", "progress=none"]
    if words[0] == "measure":
        found += ["--out", str(out / "measured")]
    main(found)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:PeerWeighting exchanges nothing")
@every_example
def test_its_commands_run_and_say_by_its_name_what_they_used(file, runs, tmp_path):
    words = commands(file)
    for each in words:
        ran(each, runs, tmp_path)
    assert words
    written = [*tmp_path.rglob("*.json"), *runs.rglob("*.json")]
    assert any(name in each.read_text() for each in written for name in public_in(file))


def public_in(file):
    """Return the functions and classes that a file defines."""
    return [
        node.name
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    ]
