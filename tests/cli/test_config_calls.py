"""Classes with arguments in one word, in configuration files."""

import pytest

from tepui.cli.main import main, read
from tepui.data import RandomCrop
from tepui.losses import Quantiles
from tepui.methods import SAM, DeepEnsemble, SharpBalance


def values(tmp_path, text, command="compare", *words):
    file = tmp_path / "c.yaml"
    file.write_text(text)
    return read([command, "--config", str(file), *words])[1]


@pytest.mark.parametrize(
    "text",
    [
        'methods: ["SAM(rho=0.1)", DeepEnsemble]',
        'methods: ["sam(rho=0.1)", {class_path: DeepEnsemble}]',
        'methods: "SAM(rho=0.1) DeepEnsemble"',
        "methods:\n- SAM(rho=0.1)\n- DeepEnsemble()",
    ],
)
def test_methods_are_written_as_on_the_command_line(tmp_path, text):
    assert values(tmp_path, text)["methods"] == [SAM(rho=0.1), DeepEnsemble()]


def test_a_method_and_other_options_are_read_beside_it(tmp_path):
    text = "method: SharpBalance(rho=0.3)\naugment: ['RandomCrop(padding=2)']\n"
    text += "loss: Quantiles(levels=[0.1, 0.9])\n"
    text += "optimizer: {class_path: SGD, init_args: {lr: 1e-3}}\nepochs: 2\n"
    found = values(tmp_path, text, "train", "--epochs", "3")
    assert found["method"] == SharpBalance(rho=0.3)
    assert found["settings"]["augment"] == (RandomCrop(padding=2),)
    assert found["loss"] == Quantiles((0.1, 0.9))
    assert (found["optimizer"].lr, found["epochs"]) == (1e-3, 3)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("method: SAM(ro=1)", "method.ro must be an argument of SAM"),
        ("method: SMA(rho=1)", "--method must be one of"),
        ("method: SAM(0.1)", "must be written NAME or 'NAME(argument=value"),
        ("method: os.mkdir(path='made')", "got 'os.mkdir'"),
        ("method: __import__('os').mkdir('made')", "must be written NAME or"),
        ("method: SAM(rho=open('made', 'w'))", "must be written NAME or"),
        ("method: SAM(rho=os.mkdir(path='made'))", "method.rho"),
    ],
)
def test_a_file_runs_no_code_by_such_words(tmp_path, monkeypatch, capsys, text, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(SystemExit):
        main(["train", "--config=c.yaml", "--out", "run"])
    assert said in " ".join(capsys.readouterr().err.split())
    assert [file.name for file in tmp_path.iterdir()] == ["c.yaml"]


def test_a_comma_that_parts_a_list_is_said_to(tmp_path):
    text = "methods: [DeepEnsemble, SAM(rho=0.1, adaptive=True)]"
    with pytest.raises(ValueError, match=r"--methods must be in quotes in a file"):
        values(tmp_path, text)
    quoted = 'methods: [DeepEnsemble, "SAM(rho=0.1, adaptive=True)"]'
    assert values(tmp_path, quoted)["methods"][1] == SAM(rho=0.1, adaptive=True)
