"""The shortcut study, quickly; at full size in the slow test."""

from pathlib import Path

import pytest
import torch

from tepui.core.storage import read_json
from tepui.data import Digits
from tepui.papers import shortcut as recipe
from tepui.papers.shortcut import ColouredDigits, data, painted, shortcut, table

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    out = tmp_path_factory.mktemp("shortcut")
    return out, shortcut(out, size="smoke")


def check_best_members(document):
    best = {row["label"]: row["runs"] for row in document["methods"]}
    best = {
        label: [max(run["members"]) for run in runs] for label, runs in best.items()
    }
    assert all(len(found) == 5 for found in best.values())
    assert max(best["deep ensemble"]) < 0.6
    assert min(best["A2D"]) > 0.8
    assert min(best["DivDis"]) > 0.8


@pytest.mark.parametrize("seed", range(5))
def test_the_shortcut_is_perfect_in_training_only(seed):
    train, unlabeled, test = data(seed)
    assert torch.equal(train.colors, train.targets)
    assert 0 < train.targets.float().mean() < 1
    # A 2x2 table of independent draws: chi-squared with one degree of freedom, of
    # which 10.83 is the 0.999 quantile.
    table = torch.zeros(2, 2).index_put(
        (unlabeled.targets, unlabeled.colors), torch.ones(()), accumulate=True
    )
    expected = table.sum(1, keepdim=True) * table.sum(0) / table.sum()
    assert float(((table - expected).square() / expected).sum()) < 10.83
    assert table.min() > 100
    for label in (0, 1):
        assert test.colors[test.targets == label].float().mean() == 0.5


def test_no_image_is_in_two_parts():
    shapes = []
    for part in data(0):
        gray = part.inputs.sum(1).flatten(1)
        shapes.append({tuple(image) for image in gray.tolist()})
    assert [len(part) for part in shapes] == [719, 718, 360]
    assert len(set.union(*shapes)) == len(Digits()) + 360


def test_colors_of_unlabeled_images_differ_by_seed_and_repeat():
    digits = Digits(train=False)
    first, again, other = (ColouredDigits(digits, "random", s) for s in (0, 0, 1))
    assert torch.equal(first.inputs, again.inputs)
    assert not torch.equal(first.inputs, other.inputs)


def test_painting_keeps_the_image_and_blackens_the_other_channel():
    images = torch.rand(6, 1, 3, 3)
    colors = torch.tensor([0, 1, 1, 0, 1, 0])
    found = painted(images, colors)
    for image, color, two in zip(images, colors, found, strict=True):
        assert torch.equal(two[color], image[0])
        assert not two[1 - color].any()


def test_an_unknown_color_is_refused():
    with pytest.raises(ValueError, match="color must be one of"):
        ColouredDigits(Digits(train=False), "green")


def test_smoke_writes_what_it_returns(smoke):
    out, document = smoke
    assert {path.name for path in out.iterdir()} == set(recipe.FILES)
    assert read_json(out / "shortcut.json") == document
    assert (out / "shortcut.md").read_text() == table(document)
    assert (out / "shortcut.png").read_bytes().startswith(b"\x89PNG")


def test_a_member_that_follows_the_color_is_right_on_half(smoke):
    _, document = smoke
    for run in document["methods"][0]["runs"]:
        assert run["follow_color"] == [1.0, 1.0]
        assert run["members"] == [0.5, 0.5]
        assert run["intact"] == [1.0, 1.0]


def test_results_repeat(smoke, tmp_path):
    _, document = smoke
    again = shortcut(tmp_path, size="smoke")
    assert again["methods"] == document["methods"]


def test_nothing_is_trained_where_files_are_in_the_way(smoke, monkeypatch):
    monkeypatch.setattr(recipe, "_run", None)
    with pytest.raises(FileExistsError, match=r"shortcut\.json exists"):
        shortcut(smoke[0], size="smoke")


def test_the_published_results_are_those_of_the_page():
    document = read_json(DOCS / "results" / "diversification" / "shortcut.json")
    check_best_members(document)
    assert table(document) in (DOCS / "diversification_studies.md").read_text()


@pytest.mark.slow
def test_a2d_and_divdis_find_the_second_hypothesis(tmp_path):
    check_best_members(shortcut(tmp_path))
