import re

import pytest

from refusals import refused
from tepui.cli.main import main
from tepui.evaluation import read_evaluation

SMALL = ["--model", "MLP(hidden=[8])", "--members", "2", "--set", "progress=none"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("corrupt") / "run"
    main(["train", *SMALL, "--epochs", "1", "--out", str(out)])
    return out


def evaluation(run, *options):
    main(["evaluate", str(run), "--overwrite", *options])
    return read_evaluation(run)


@pytest.mark.slow
def test_written_copies_score_as_those_made_on_the_fly(run, tmp_path, capsys):
    out = tmp_path / "x"
    main(["corrupt", "--out", str(out)])
    assert f"75 corrupted copies in {out}" in capsys.readouterr().out
    found = evaluation(run, "--copies", str(out))
    assert len(found["cells"]) == 75
    made = evaluation(run)
    assert found.pop("about")["copies"]
    assert made.pop("about")["strength"] == "cifar"
    assert found == made


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--data", "Digit"], "data must be one of .*did you mean 'Digits'"),
        (["--types", "foggy"], r"name must be one of .*did you mean 'fog'"),
    ],
)
def test_mistakes_end_in_a_message(options, message, tmp_path, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["corrupt", *options, "--out", str(tmp_path / "x")])
    assert stopped.value.code == 2
    assert re.search(message, " ".join(capsys.readouterr().err.split()))
    assert not (tmp_path / "x").exists()


def test_a_folder_is_not_overwritten(tmp_path, capsys):
    words = ["corrupt", "--out", str(tmp_path / "x"), "--types"]
    main([*words, "contrast"])
    assert "choose another folder" in refused([*words, "brightness"], capsys)
    names = {path.stem for path in (tmp_path / "x").glob("*.npy")}
    assert names == {"contrast", "labels"}


def test_evaluating_on_a_folder_without_copies_says_so(run, tmp_path, capsys):
    assert "must hold corrupted copies" in refused(
        ["evaluate", str(run), "--overwrite", "--copies", str(tmp_path)], capsys
    )
