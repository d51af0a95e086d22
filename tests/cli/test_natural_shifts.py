"""Natural shifts on the command line, in the table and in the report."""

import shutil

import pytest
import torch

import tepui
from data_layouts import picture
from refusals import refused
from tepui.cli.main import main
from tepui.data import Arrays, ImageFolder, prepared_like
from tepui.evaluation import read_evaluation

SHORT = ["--members", "2", "--epochs", "1", "--set", "progress=none", "device=cpu"]


@pytest.fixture
def domains(tmp_path, monkeypatch):
    """Two folders of the same classes: photos, and larger sketches."""
    monkeypatch.chdir(tmp_path)
    for domain, size, images in (("photos", 8, 10), ("sketches", 12, 3)):
        for number, name in enumerate(("ant", "bee")):
            for image in range(images):
                shade = (200 * number, 5 * image, 90)
                picture(tmp_path / domain / name / f"{image}.png", shade, (size, size))
    return tmp_path


DATA = ["--data", "ImageFolder(path=photos)", "--model", "ConvNet(width=2)"]
SKETCH = ["--shifted", "sketch=ImageFolder(path=sketches)"]


@pytest.mark.slow
def test_a_folder_is_a_natural_shift_by_its_name(domains, capsys):
    main(["train", *DATA, *SHORT, "--out", "run"])
    main(["evaluate", "run", *DATA[:2], *SKETCH])
    printed = " ".join(capsys.readouterr().out.split())
    assert "sketch" in printed
    document = read_evaluation(domains / "run")
    surest = document["selective"]["max_mean_probability"]
    assert f"error of the surest {surest['error_at_90']:.4g} of 90 %" in printed
    assert document["shifted"] is None
    (cell,) = document["cells"]
    assert (cell["type"], cell["severity"]) == ("sketch", 0)
    test = ImageFolder("photos", train=False)
    whole = prepared_like(ImageFolder("sketches", part="all"), test)
    assert len(whole) == 6
    expected = tepui.evaluate(tepui.load("run"), whole).clean
    assert cell["accuracy"] == expected.accuracy
    assert [*document["about"]["natural"]] == ["sketch"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--shifted", "sketch="], "a value is missing"),
        (["--shifted", "ImageFolder(path=sketches)"], "be written NAME=DATASET"),
        ([*SKETCH, *SKETCH], "name each data set once"),
    ],
)
def test_mistakes_are_named(words, message, domains, capsys):
    assert message in refused(["evaluate", "run", *DATA[:2], *words], capsys)


OTHER = ["--data", "ImageFolder(path=sketches)", "--corruptions", "none"]
WHOLE = ["--data", "ImageFolder(path=sketches, part=all)", *OTHER[2:]]


def test_all_of_another_folder_can_be_tested_on(domains, capsys):
    main(["train", *DATA, *SHORT, "--out", "run"])
    main(["evaluate", "run", *OTHER])
    printed = " ".join(capsys.readouterr().out.split())
    assert "run: 2 samples, 2 members" in printed
    main(["evaluate", "run", *WHOLE, "--overwrite"])
    assert "run: 6 samples, 2 members" in capsys.readouterr().out
    found = read_evaluation(domains / "run")
    whole = prepared_like(ImageFolder("sketches", part="all"), ImageFolder("photos"))
    assert found["clean"]["nll"] == tepui.evaluate(tepui.load("run"), whole).clean.nll
    assert found["samples"] == 6


@pytest.mark.slow
def test_the_test_part_of_a_run_is_not_what_it_learned_from(domains, capsys):
    (domains / "both").mkdir()
    (domains / "both" / "train").symlink_to(domains / "photos")
    (domains / "both" / "test").symlink_to(domains / "sketches")
    words = ["--data", "ImageFolder(path=both, size=8)", *DATA[2:]]
    main(["train", *words, *SHORT, "--out", "run"])
    main(["evaluate", "run", *WHOLE])
    assert "run: 6 samples, 2 members" in capsys.readouterr().out
    for seen in ("photos", "both"):
        again = ["evaluate", "run", "--data", f"ImageFolder(path={seen}, part=all)"]
        with pytest.raises(SystemExit):
            main([*again, "--overwrite"])
        assert "part must be left out: what is" in capsys.readouterr().err
        with pytest.raises(SystemExit):
            main(["evaluate", "run", "--shifted", f"own=ImageFolder(path={seen})"])
        assert "shifted own must be other data than" in capsys.readouterr().err
    again = ["evaluate", "run", "--shifted", "own=ImageFolder(path=both/test)"]
    main([*again, "--overwrite"])


@pytest.mark.slow
def test_a_site_may_lack_a_class_and_classes_go_by_their_names(domains):
    main(["train", *DATA, *SHORT, "--out", "run"])
    shutil.rmtree(domains / "sketches" / "ant")
    main(["evaluate", "run", *SKETCH])
    (cell,) = read_evaluation(domains / "run")["cells"]
    test = ImageFolder("photos", train=False)
    bees = prepared_like(ImageFolder("sketches", part="all"), test)
    ones = Arrays(bees.held.inputs, torch.ones(3).long(), bees.normalize)
    assert cell["nll"] == tepui.evaluate(tepui.load("run"), ones).clean.nll
    main(["evaluate", "run", *WHOLE, "--overwrite"])
    found = read_evaluation(domains / "run")
    assert found["by_class"]["samples"] == [0, 3]


def test_a_class_that_the_run_does_not_know_is_refused(domains, capsys):
    main(["train", *DATA, *SHORT, "--out", "run"])
    (domains / "sketches" / "ant").rename(domains / "sketches" / "wasp")
    assert "must have the classes of dataset (0 is 'ant')" in refused(
        ["evaluate", "run", *SKETCH], capsys
    )
