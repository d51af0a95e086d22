"""Unfamiliar sets on the command line."""

import json
import shutil

import pytest
import torch
from PIL import Image

import tepui
from tepui.cli.main import main
from tepui.cli.parsing import check_names, class_names, named_set, normalized
from tepui.data import Digits, UniformNoise, UnlabeledFolder, prepared_like

SMALL = ["--model", "MLP", "--model.hidden", "[8]", "--members", "2", "--quiet"]
SMALL += ["--epochs", "1"]
FEW = 'few={"class_path": "UniformNoise", "init_args": {"num_samples": 40}}'


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    out = tmp_path_factory.mktemp("cli") / "run"
    main(["train", *SMALL, "--out", str(out)])
    return out


@pytest.fixture
def pictures(tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    generator = torch.Generator().manual_seed(0)
    for number in range(3):
        pixels = torch.randint(256, (12, 20, 3), generator=generator).byte()
        Image.fromarray(pixels.numpy()).save(folder / f"{number}.png")
    return folder


@pytest.mark.slow
def test_evaluate_finds_unfamiliar_samples(trained, pictures, capsys):
    options = ["--corruptions", "none", "--overwrite"]
    sets = ["--ood", FEW, f"folder=UnlabeledFolder:{pictures}"]
    main(["evaluate", str(trained), *options, *sets, "--ood", "same=Digits"])
    shown = capsys.readouterr().out
    assert "AUPR" in shown
    assert "mistakes" in shown
    assert "mutual information" in shown
    document = json.loads((trained / "evaluation.json").read_text())
    test = Digits(train=False)
    ood = {
        "few": UniformNoise(num_samples=40, like=test),
        "folder": prepared_like(UnlabeledFolder(pictures), test),
        "same": test,
    }
    again = tepui.evaluate(tepui.load(trained), test, ood=ood)
    assert document["ood"] == again.document()["ood"]
    assert document["histograms"] == again.document()["histograms"]
    assert document["ood"]["same"]["pds"]["auroc"] == 0.5
    assert list(tepui.read_logits(trained).ood) == ["few", "folder", "same"]


def test_a_file_of_options_maps_names_to_data_sets(trained, tmp_path):
    config = tmp_path / "c.yaml"
    config.write_text(
        "corruptions: none\noverwrite: true\nood:\n  plain: GaussianNoise\n"
        "  few: {class_path: UniformNoise, init_args: {num_samples: 7}}\n"
    )
    fresh = tmp_path / "run"  # evaluations of one run add up
    measured = shutil.ignore_patterns("evaluation.json", "logits*", "gallery*")
    shutil.copytree(trained, fresh, ignore=measured)
    main(["evaluate", str(fresh), "--config", str(config)])
    found = json.loads((fresh / "evaluation.json").read_text())["ood"]
    samples = {k: v["max_mean_probability"]["samples"] for k, v in found.items()}
    assert samples == {"plain": 10_000, "few": 7}


def test_compare_writes_pictures_and_report_finds_them(tmp_path, capsys):
    out = tmp_path / "run"
    options = ["--methods", "SAM", "--ensembles", "1", "--corruptions", "none"]
    options += ["--sharpness", "0", "--ood", FEW]
    main(["compare", *SMALL, *options, "--out", str(out)])
    assert "unfamiliar samples, AUROC in % by max mean" in capsys.readouterr().out
    page = (out / "report.html").read_text()
    assert page.count("<img") == 2 * 12
    main(["report", str(out), "--out", str(tmp_path / "again")])
    assert (tmp_path / "again/report.html").read_text() == page


def test_sets_are_gathered_from_anywhere_on_the_line():
    words = [
        "evaluate",
        "run",
        "--ood=a=Digits",
        "--rule",
        "vote",
        "--ood",
        "b=SVHN:/d",
    ]
    found = normalized(words)
    assert found[:-1] == ["evaluate", "run", "--rule", "vote", "--ood"]
    assert json.loads(found[-1]) == {
        "a": "Digits",
        "b": {"class_path": "SVHN", "init_args": {"root": "/d"}},
    }
    assert normalized(found[:-2]) == found[:-2]


def test_names_and_values():
    assert named_set("a=mine.sets.Far") == ("a", "mine.sets.Far")
    assert named_set("a=UnlabeledFolder:x=y:z")[1]["init_args"] == {"path": "x=y:z"}
    words = normalized(["--ood", "a=mine.sets.Far", "b=tepui.data.Digits", "c=Digits"])
    named = ["mine.sets.Far", "tepui.data.Digits", "Digits"]
    assert class_names(*words) == named
    check_names(words)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("UniformNoise", "--ood must be written NAME=DATASET"),
        ("=UniformNoise", "--ood must be written NAME=DATASET"),
        ("a=", "--ood must be written NAME=DATASET"),
        ("a=UnifromNoise", "did you mean 'UniformNoise'"),
        ("a=Folder:x", "--ood must be one of ArrayFile,"),
        ("a=UniformNoise:x", "--ood a must name no folder, UniformNoise takes none"),
        ("a={", "--ood a must be JSON, but"),
        ("a=UnlabeledFolder:nowhere", "path must be a folder of images, got nowhere"),
        ("a=MRPC:nowhere", "nowhere"),
    ],
)
def test_mistakes_end_in_one_line(value, message, trained, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["evaluate", str(trained), "--overwrite", "--ood", value])
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--ood far=ImageFolder:nowhere", "--ood far: path must be a folder"),
        ("--shifted far=ImageFolder:nowhere", "--shifted far: path must be a folder"),
    ],
)
def test_what_is_wrong_with_a_set_names_its_option(option, message, trained, capsys):
    with pytest.raises(SystemExit):
        main(["evaluate", str(trained), "--corruptions", "none", *option.split()])
    shown = " ".join(capsys.readouterr().err.split())
    assert message in shown
    assert "--data" not in shown


def test_a_folder_with_the_name_of_a_data_set_changes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "svhn").mkdir()
    assert named_set("far=svhn") == ("far", "SVHN")


@pytest.mark.parametrize("rest", [[], ["--overwrite"]])
def test_no_set_is_a_mistake(rest, trained, capsys):
    with pytest.raises(SystemExit):
        main(["evaluate", str(trained), "--ood", *rest])
    assert "--ood must be written NAME=DATASET" in capsys.readouterr().err


def test_two_sets_cannot_share_a_name(trained, capsys):
    with pytest.raises(SystemExit):
        main(["evaluate", str(trained), "--ood", "a=Digits", "--ood", "a=SVHN"])
    assert "--ood must name each data set once, got 'a'" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["evaluate", "compare"])
def test_help_shows_how_and_lists_what_is_known(command, capsys):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "--ood noise=UniformNoise textures=UnlabeledFolder:PATH" in shown
    data, ood = re_known(shown, "--data DATA"), re_known(shown, "--ood OOD")
    assert "UniformNoise" in ood
    assert "UniformNoise" not in data
    assert "Digits" in data


def re_known(shown, option):
    """Return the known names in the last mention of an option."""
    text = shown[shown.rindex(option) :]
    return text[text.index("known: ") :].split(")")[0]
