"""Natural shifts on the command line, in the table and in the report."""

import json

import pytest

import tepui
from data_layouts import picture
from tepui.cli.main import main
from tepui.data import ImageFolder, prepared_like

SHORT = ["--members", "2", "--epochs", "1", "--quiet", "--device", "cpu"]


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


DATA = ["--data", "ImageFolder", "--data.path", "photos", "--model.width", "2"]
SKETCH = ["--shifted", "sketch=ImageFolder:sketches"]


def test_a_folder_is_a_natural_shift_by_its_name(domains, capsys):
    main(["train", *DATA, *SHORT, "--out", "run"])
    main(["evaluate", "run", *DATA[:4], *SKETCH])
    assert "sketch" in capsys.readouterr().out
    document = json.loads((domains / "run" / "evaluation.json").read_text())
    assert document["shifted"] is None
    (cell,) = document["cells"]
    assert (cell["type"], cell["severity"]) == ("sketch", 0)
    test = ImageFolder("photos", train=False)
    whole = prepared_like(ImageFolder("sketches", part="all"), test)
    assert len(whole) == 6
    expected = tepui.evaluate(tepui.load("run"), whole).clean
    assert cell["accuracy"] == expected.accuracy
    assert [*document["about"]["natural"]] == ["sketch"]


def test_a_comparison_shows_it_beside_corrupted_copies(domains, capsys):
    words = [*DATA, *SHORT, "--methods", "DeepEnsemble", "SAM", "--ensembles", "1"]
    main(["compare", *words, *SKETCH, "--sharpness", "0", "--out", "out"])
    shown = capsys.readouterr().out
    assert all(f" {kind} " in shown for kind in ("clean", "corrupted", "sketch"))
    page = (domains / "out" / "report.html").read_text()
    assert "natural shifts: sketch" in page
    assert "75 corrupted copies" in page
    assert "SAM, sketch data: " in page
    before = page
    main(["compare", *words, *SKETCH, "--sharpness", "0", "--out", "out", "--resume"])
    assert (domains / "out" / "report.html").read_text() == before


def test_a_file_names_natural_shifts_of_the_list_alone(domains, capsys):
    tepui.Ensemble.build(tepui.models.ConvNet, members=2).save("mine")
    options = "shifted: {sketch: {class_path: os.system}}\n"
    (domains / "c.yaml").write_text(options)
    with pytest.raises(SystemExit):
        main(["evaluate", "mine", "--config", "c.yaml"])
    assert "must name a class that tepui offers" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--shifted", "sketch=UnlabeledFolder:sketches"], "--shifted must be one of"),
        (["--shifted", "sketch="], "--shifted must be written NAME=DATASET"),
        ([*SKETCH, *SKETCH], "--shifted must name each data set once"),
        ([*SKETCH, "--shifted", "CIFAR10C"], "--shifted must name corrupted copies or"),
        (["--data.part", "all"], "--data.part must be left out: what is trained on"),
    ],
)
def test_mistakes_are_named(words, message, domains, capsys):
    with pytest.raises(SystemExit):
        main(["train" if "--data.part" in words else "evaluate", *_run(words), *words])
    assert message in capsys.readouterr().err


def _run(words):
    return DATA if "--data.part" in words else ["run", *DATA[:4]]
