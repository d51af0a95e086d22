"""Natural shifts on the command line, in the table and in the report."""

import pytest

import tepui
from data_layouts import picture
from refusals import refused
from tepui.cli.main import main
from tepui.data import ImageFolder, prepared_like
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


def test_a_class_that_the_run_does_not_know_is_refused(domains, capsys):
    main(["train", *DATA, *SHORT, "--out", "run"])
    (domains / "sketches" / "ant").rename(domains / "sketches" / "wasp")
    assert "must have the classes of dataset (0 is 'ant')" in refused(
        ["evaluate", "run", *SKETCH], capsys
    )
