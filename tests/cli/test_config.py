"""Options from files: what a person writes, and what a run keeps of its command."""

import json
import subprocess
import sys
from types import ModuleType

import pytest
import yaml

import tepui
from refusals import refused
from tepui.cli.folders import asked
from tepui.cli.main import main
from tepui.cli.settings import read_settings
from tepui.cli.values import Text
from tepui.core.provenance import MASK

QUIET = ["--set", "progress=none"]
SMALL = ["--model", "MLP(hidden=[8])", "--members", "2", *QUIET]


def config_of(run):
    return json.loads((run / "run.json").read_text())["config"]


def asked_in(run):
    return json.loads((run / "options.json").read_text())["options"]


def test_a_file_has_the_options_of_the_command_line(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(
        "epochs: 1\nmembers: 2\nmodel: MLP(hidden=[4])\nmethod: SAM(rho=[0.1, 0.2])\n"
        "augment: [RandomCrop(padding=1), HorizontalFlip]\n"
        "set: {batch_size: 16, clip_norm: 1.0, progress: none}\n"
    )
    more = ["--set", "batch_size=32", "--out", str(tmp_path / "run")]
    main(["train", "--config", str(file), *more])
    config = config_of(tmp_path / "run")
    assert config["method"]["rho"] == [0.1, 0.2]
    assert (config["batch_size"], config["clip_norm"]) == (32, 1.0)
    assert [each["class"] for each in config["augment"]] == [
        *("RandomCrop", "HorizontalFlip")
    ]


def test_what_a_run_keeps_makes_the_same_run(tmp_path, monkeypatch):
    words = [*SMALL, "--epochs", "1", "--seeds", "5", "6", "--validation", "0.1"]
    words += ["--augment", "RandomCrop(padding=1)", "--method", "SAM(rho=0.3)"]
    words += ["--set", "batch_size=32", "schedule=Constant()"]
    main(["train", *words, "--out", str(tmp_path / "one")])
    assert "progress" not in asked_in(tmp_path / "one")["set"]
    again = ["train", "--config", str(tmp_path / "one" / "options.json"), *QUIET]
    monkeypatch.chdir(tmp_path)
    main([*again, "--out", "two"])
    assert config_of(tmp_path / "one") == config_of(tmp_path / "two")
    one, two = (tepui.load(tmp_path / name).state_dict() for name in ("one", "two"))
    assert all((one[name] == two[name]).all() for name in one)


def test_what_was_typed_without_quotes_is_read_again(tmp_path):
    out = ["--out", str(tmp_path / "run")]
    words = ["--method", "SharpBalance(select=random)", "--epochs", "2", *out]
    words += ["--loss", "CrossEntropy(class_weights=[1,2,1,1,1,1,1,1,1,1])"]
    rule = "early_stopping=EarlyStopping(monitor=loss, patience=3)"
    main(["train", *SMALL, *words, *QUIET, "stop_after=1", rule])
    main(["train", "--resume", *out, *QUIET])
    config = config_of(tmp_path / "run")
    assert config["method"]["select"] == "random"
    assert config["early_stopping"]["monitor"] == "loss"


def test_settings_are_kept_as_a_file_holds_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "body").mkdir()
    words = ["unlabeled=UnlabeledFolder(path=more)", "extractor=body", "prune=none"]
    words += ["augment=[RandomCrop(padding=1), HorizontalFlip]", "track=[mlflow]"]
    words += ["batch_size=8", "batch_size=9", "progress=none"]
    kept = asked("compare", {"set": [Text(word, "set") for word in words]})
    assert kept["options"]["set"] == {
        "unlabeled": f"UnlabeledFolder(path='{tmp_path / 'more'}')",
        "extractor": str(tmp_path / "body"),
        "prune": "none",
        "augment": "[RandomCrop(padding=1), HorizontalFlip()]",
        "track": "[mlflow]",
        "batch_size": "9",
    }


def test_own_code_in_the_settings_of_a_run_is_typed_again(monkeypatch):
    monkeypatch.setitem(sys.modules, "mine", ModuleType("mine"))
    kept = Text("metrics=mine.gone", "set", typed=False)
    with pytest.raises(ValueError, match="type the path of your own code"):
        read_settings("compare", [kept])
    again = Text("metrics=tepui.metrics.aurc", "set")
    assert read_settings("compare", [kept, again]) == {"metrics": tepui.metrics.aurc}


def test_secrets_are_not_kept(tmp_path, capsys):
    kept = {"command": "train", "options": {"data": f"Digits(token={MASK})"}}
    (tmp_path / "options.json").write_text(json.dumps(kept))
    said = refused(["train", "--config", str(tmp_path / "options.json")], capsys)
    assert "data must be typed, since folders keep no secrets" in said


CODE = "open('gone', 'w')\nfrom torch import nn\n\nclass Net(nn.Linear):\n    pass\n"


def test_code_of_ones_own_is_reached_only_if_it_is_typed(tmp_path):
    (tmp_path / "mine.py").write_text(CODE)
    (tmp_path / "own.yaml").write_text("model: mine.Net\n")

    def run(*words):
        words = [sys.executable, "-m", "tepui", "train", *words]
        options = {"capture_output": True, "text": True, "cwd": tmp_path}
        return subprocess.run(words, check=False, timeout=300, **options)

    done = run("--config", "own.yaml")
    assert done.returncode == 2
    assert "model must be typed on the command line" in " ".join(done.stderr.split())
    assert not (tmp_path / "gone").exists()


HOSTILE = {
    "alias": "a: &a [x]\nb: *a\n",
    "bomb": "a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n",
    "deep": "[" * 25 + "]" * 25,
    "very deep": "[" * 100_000,
    "object": "method: !!python/object/apply:os.system ['touch gone']\n",
    "list": "- epochs\n",
    "text": "epochs\n",
    "empty": "",
    "unknown": "epoch: 1\n",
    "long": "epochs: " + "1" * 2**20,
    "own": "out: here\n",
    "name": "1: 2\n",
    "other": yaml.safe_dump({"command": "compare", "options": {"epochs": 1}}),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_or_wrong_file_is_refused(kind, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file.yaml").write_text(HOSTILE[kind])
    said = refused(["train", "--config", "file.yaml"], capsys)
    assert "must" in said
    assert [path.name for path in tmp_path.iterdir()] == ["file.yaml"]


def test_a_file_that_is_no_text_is_refused(tmp_path, capsys):
    (tmp_path / "file.yaml").write_bytes(b"epochs: \xff\n")
    said = refused(["train", "--config", str(tmp_path / "file.yaml")], capsys)
    assert "config must be YAML" in said


def test_nothing_is_trained_for_a_folder_that_is_not_there(tmp_path, capsys):
    words = ["--resume", "--out", tmp_path / "rnu"]
    for command in (["train"], ["compare", "--methods", "SAM"]):
        said = refused([*command, *words], capsys)
        assert "tepui: out must be the folder of what shall go on" in said
    assert not (tmp_path / "rnu").exists()
