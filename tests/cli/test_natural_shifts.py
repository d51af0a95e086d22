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
from tepui.evaluation.by_class import ByClass

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


@pytest.mark.slow
def test_a_comparison_shows_it_beside_corrupted_copies(domains, capsys):
    words = [*DATA, *SHORT, "--methods", "DeepEnsemble", "SAM", "--ensembles", "1"]
    main(["compare", *words, *SKETCH, "--set", "sharpness=0", "--out", "out"])
    shown = capsys.readouterr().out
    assert all(f" {kind} " in shown for kind in ("clean", "corrupted", "sketch"))
    page = (domains / "out" / "report.html").read_text()
    assert "natural shifts: sketch" in page
    assert "75 corrupted copies" in page
    assert "SAM, sketch data: " in page
    before = page
    main(
        ["compare", *words, *SKETCH, "--set", "sharpness=0", "--out", "out", "--resume"]
    )
    assert (domains / "out" / "report.html").read_text() == before


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


def test_not_all_of_a_folder_is_trained_on(domains, capsys):
    with pytest.raises(SystemExit):
        main(["train", "--data", "ImageFolder(path=photos, part=all)"])
    said = "part must be left out: what is trained on must not be tested on"
    assert said in capsys.readouterr().err


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


def test_a_run_that_does_not_say_what_it_learned_from_is_told_another_way(
    domains, capsys
):
    ensemble = tepui.Ensemble.build(lambda: tepui.models.ConvNet(2, 3, 2), members=2)
    how = {"method": tepui.methods.DeepEnsemble(), "epochs": 1, "progress": "none"}
    tepui.fit(ensemble, ImageFolder("photos"), out="run", **how)
    error = refused(["evaluate", "run", *WHOLE], capsys)
    why = "since run does not say what members learned from"
    assert f"part must be left out, {why}" in error
    assert "--shifted NAME=ImageFolder(path=PATH)" in error
    main(["evaluate", "run", *DATA[:2], *SKETCH])
    assert "sketch" in capsys.readouterr().out


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


def told(found):
    return found.document(), found.applied_document()


@pytest.mark.slow
def test_classes_of_a_shift_have_scores_too(domains, capsys):
    main(["train", *DATA, *SHORT, "--validation", "0.5", "--out", "run"])
    main(["calibrate", "run", "--coverage", "0.8"])
    main(["evaluate", "run", "--corruptions", "cifar"])
    found = read_evaluation(domains / "run")
    assert "by_class_shifted" not in found
    assert "by_class_shifted" not in found["applied"]
    capsys.readouterr()
    main(["evaluate", "run", *SKETCH])
    first = read_evaluation(domains / "run")
    whole = prepared_like(ImageFolder("sketches", part="all"), ImageFolder("photos"))
    alone = tepui.evaluate(tepui.load("run"), whole)
    assert told(ByClass.of(first, "sketch")) == told(alone.by_class)
    assert alone.by_class.coverage
    main(["evaluate", "run", "--shifted", "again=ImageFolder(path=sketches)"])
    found = read_evaluation(domains / "run")
    assert [*found["by_class_shifted"]] == ["sketch", "again"]
    for name in ("sketch", "again"):
        assert told(ByClass.of(found, name)) == told(alone.by_class)
    assert ByClass.of(found, "fog") is None
    main(["report", "run"])
    page = (domains / "run" / "report.html").read_text()
    assert "By class, sketch data" in page
    assert "By class, again data" in page


@pytest.mark.slow
@pytest.mark.parametrize("command", ["evaluate", "compare"])
@pytest.mark.parametrize("name", ["clean", "shifted", "corrupted"])
def test_no_natural_shift_is_called_as_other_data_are(domains, command, name, capsys):
    main(["train", *DATA, *SHORT, "--out", "run"])
    asked = ["--shifted", f"{name}=ImageFolder(path=sketches)"]
    words = {
        "evaluate": ["evaluate", "run", *DATA[:2], *asked],
        "compare": ["compare", *DATA, *SHORT, *asked, "--out", "both"],
    }
    with pytest.raises(SystemExit):
        main(words[command])
    rule = "shifted must name no natural shift as other data are called"
    error = capsys.readouterr().err
    assert f"{rule} (clean, shifted, corrupted), got '{name}'" in error
    assert not (domains / "both").exists()
