"""``tepui verify``, and what the command line does when the disk does not work."""

import shutil
import subprocess
import sys
from functools import wraps
from pathlib import Path

import pytest

from damage_cases import comparison, evaluated, run
from refusals import refused
from tepui.cli.main import main
from tepui.data import Digits
from tepui.data.published import RECORD

TWO = ["--members", "2", "--set", "progress=none", "device=cpu"]
FAST = ["--epochs", "1", "--model", "MLP(hidden=[4])", *TWO]


def test_damage_is_shown_and_the_exit_code_is_one(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    folder = Path("[red]run")
    folder.mkdir()
    evaluated(folder)
    file = folder / "evaluations/clean.safetensors"
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(SystemExit) as stop:
        main(["verify", str(folder)])
    assert stop.value.code == 1
    shown = capsys.readouterr().out
    assert "[red]run" in shown
    assert "its digest" in " ".join(shown.replace("│", " ").split())


def test_a_broken_file_of_others_is_named_as_foreign(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run(tmp_path / "run")
    Path("run/mine.json").write_text("{not json")
    main(["verify", "run"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "nothing is damaged" in shown
    assert "foreign files that cannot be read: run/mine.json" in shown


def test_corrupted_copies_have_a_record(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    main(["corrupt", "--out", "c", "--types", "fog"])
    assert Path("c", RECORD).is_file()
    main(["verify", "c"])
    Path("c", "labels.npy").write_bytes(b"x")
    with pytest.raises(SystemExit):
        main(["verify", "c"])
    assert "labels.npy" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        ["train", *FAST, "--out", "FILE/run"],
        ["compare", *FAST, "--out", "FILE/run"],
        ["evaluate", "FILE", "--model", "MLP", "--out", "FILE/run"],
        ["report", "RUN", "--out", "FILE/run"],
        ["corrupt", "--out", "FILE/run"],
        ["reproduce", "sharpbalance/figure7a", "--size", "smoke", "--out", "FILE/x"],
        ["claims", "--from", "RUN", "--out", "FILE/x"],
    ],
    ids=lambda words: words[0],
)
def test_a_folder_that_cannot_be_written_ends_before_the_work(
    words, tmp_path, capsys, monkeypatch
):
    """Even root cannot make a folder where a file lies."""

    @wraps(Digits.__init__)
    def forbidden(*_, **__):
        raise AssertionError("data were read first")

    monkeypatch.setattr(Digits, "__init__", forbidden)
    (tmp_path / "file").touch()
    places = {"FILE": str(tmp_path / "file"), "RUN": str(tmp_path)}
    written = [
        word.replace("FILE", places["FILE"]).replace("RUN", places["RUN"])
        for word in words
    ]
    with pytest.raises(SystemExit) as stop:
        main(written)
    assert stop.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"tepui: {tmp_path / 'file'}/")
    assert "could not be written" in line


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
from tepui.cli.main import main
from tepui.data import Digits
main(sys.argv[1:])
"""


def test_a_full_disk_ends_in_a_sentence_and_a_run_that_can_go_on(tmp_path):
    out, wide = tmp_path / "run", ["--model", "MLP(hidden=[100])"]
    words = ["train", *TWO, *wide, "--epochs", "2", "--out", str(out)]
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert ".safetensors could not be written: file too large;" in done.stderr
    left = [path for path in out.rglob("*") if path.name.endswith(".tmp")]
    assert left == []
    main([*words, "--resume"])
    main(["verify", str(out)])
    whole = tmp_path / "whole"
    main([*words[:-1], str(whole)])
    first, second = (path / "ensemble.safetensors" for path in (out, whole))
    assert first.read_bytes() == second.read_bytes()


def test_a_comparison_cannot_lead_a_report_out_of_its_folder(tmp_path, capsys):
    comparison(tmp_path)
    text = (tmp_path / "results.json").read_text()
    (tmp_path / "results.json").write_text(text.replace("SAM/0", "../.."))
    assert "digest differs" in refused(["report", str(tmp_path)], capsys)


def test_a_second_trainer_is_refused_with_the_name_of_the_first(tmp_path):
    code = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from tepui.core.lease import LEASE, leased\n"
        "with leased(Path(sys.argv[1]) / LEASE):\n"
        "    print('held', flush=True)\n"
        "    time.sleep(1000)\n"
    )
    out = tmp_path / "run"
    longer = ["train", *TWO, "stop_after=1", "--model", "MLP(hidden=[4])"]
    longer += ["--epochs", "2", "--out", str(out)]
    main(longer)
    command = [sys.executable, "-c", code, str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        try:
            again = [*longer, "--resume"]
            with pytest.raises(SystemExit) as stop:
                main(again)
            assert f"in use by process {holder.pid}" in str(stop.value.__cause__)
        finally:
            holder.kill()
    main(again)  # the dead do not block
    shutil.rmtree(out)


def test_no_output_replaces_a_file_of_a_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    main(["train", *FAST, "--out", "run"])
    main(["predict", "run", "--data", "Digits", "--out", "run/mine.safetensors"])
    content = {p: p.read_bytes() for p in Path("run").rglob("*") if p.is_file()}
    own = Path("run/mine.safetensors")
    weights = [p for p in content if p.suffix == ".safetensors" and p != own]
    assert len(weights) == 3  # of the ensemble, and of the checkpoint of each member
    words = ["predict", "run", "--data", "Digits", "--overwrite", "--out"]
    others = [p for p in content if p.suffix in (".json", ".jsonl")]
    export = ["export", "run", "--to", "onnx", "--overwrite", "--out"]
    for command, files in ((words, weights), (export, [*weights, *others, own])):
        for file in files:
            with pytest.raises(SystemExit) as stop:
                main([*command, str(file)])
            assert stop.value.code == 2
            said = "--out must not be a file of a run, which would be lost, got "
            assert f"{said}'{file}'" in capsys.readouterr().err
    assert {p: p.read_bytes() for p in content} == content
    main([*words, str(own)])
    main(["predict", "run", "--data", "Digits", "--out", "run/mine.csv"])
    main([*words, "run/mine.csv"])
    assert {p: p.read_bytes() for p in content} == content
