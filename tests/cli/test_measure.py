"""``tepui measure`` on files of weights and on run folders."""

import math
from functools import wraps

import pytest
import torch

import tepui
from tepui.cli.main import main
from tepui.core.storage import read_document
from tepui.methods import DeepEnsemble
from tepui.models import ConvNet
from tepui.sharpness import fisher_rao, worst_case


@pytest.fixture
def files(tmp_path):
    paths = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        paths.append(tmp_path / f"{seed}.pt")
        torch.save({"state_dict": ConvNet(width=2).state_dict()}, paths[-1])
    return paths


def measured(out, *words):
    main(["measure", *map(str, words), "--samples", "10", "--out", str(out)])
    return read_document(out / "measure.json", "measures")


MODEL = ("--data", "Digits", "--model", "ConvNet(width=2)")


@pytest.mark.slow
def test_files_of_weights_are_measured(files, tmp_path, capsys):
    found = measured(tmp_path / "out", *files, *MODEL)
    assert set(found["sharpness"]) == {
        "worst_case",
        "average_case",
        "fisher_rao",
        "relative_flatness",
        "fisher_trace",
        "hessian_trace",
    }
    for measure in found["sharpness"].values():
        assert len(measure["members"]) == 2
        assert math.isfinite(measure["mean"])
    net = ConvNet(width=2)
    net.load_state_dict(torch.load(files[1], weights_only=True)["state_dict"])
    stream = tepui.core.seeding.generator(0, "measure", "fisher_rao")
    data = tepui.data.Digits()
    exact = fisher_rao(net, data, num_samples=10, generator=stream).value
    assert found["sharpness"]["fisher_rao"]["members"][1]["value"] == exact
    assert 0 <= found["diversity"]["disagreement"] <= 1
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["measure.json"]
    assert "relative_flatness" in capsys.readouterr().out


@pytest.mark.slow
def test_a_radius_is_measured_once(files, monkeypatch, tmp_path):
    calls = []

    def counted(*arguments, rho, **options):
        calls.append(rho)
        return worst_case(*arguments, rho=rho, **options)

    monkeypatch.setattr(tepui.sharpness, "worst_case", wraps(worst_case)(counted))
    measured(tmp_path / "out", files[0], *MODEL, "--what", "sharpness", "--rho", 1, 2)
    assert calls == [[1.0, 2.0]]


def test_a_run_folder_needs_no_model_and_parts_can_be_left_out(tmp_path):
    ensemble = tepui.Ensemble.build(lambda: ConvNet(width=2), members=2)
    data = tepui.data.Digits().subset(range(32))
    how = {"method": DeepEnsemble(), "epochs": 1, "progress": "none"}
    tepui.fit(ensemble, data, out=tmp_path / "run", **how)
    words = ("--what", "diversity", "--data", "Digits")
    found = measured(tmp_path / "out", tmp_path / "run", *words)
    assert "sharpness" not in found
    test = tepui.data.Digits(train=False)
    assert found["diversity"] == tepui.evaluate(ensemble, test).clean.document()


def test_unfamiliar_sets_are_detected_as_by_evaluate(files, tmp_path, capsys):
    words = ("--what", "ood", "--ood", "noise=UniformNoise")
    found = measured(tmp_path / "out", *files, *MODEL, *words)
    assert set(found) == {"checkpoints", "settings", "ood"}
    assert 0 <= found["ood"]["noise"]["pds"]["auroc"] <= 1
    assert "AUROC" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--what", "flatness", *MODEL], '"flatness" for --what'),
        (["--what", "ood", *MODEL], "ood must go with --what ood"),
        (["--rho", "0.1", "0.1", *MODEL], "rho must be different numbers"),
        (["--data", "Digits"], "model must be given to read files of weights"),
        (["--data", "Digits", "--model", "MLP"], "must fit MLP"),
        (["--model", "MLP"], "data must be given, since "),
    ],
)
def test_bad_words(files, tmp_path, capsys, words, message):
    with pytest.raises(SystemExit):
        measured(tmp_path / "out", *files, *words)
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_nothing_is_overwritten(files, tmp_path, capsys):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("keep")
    with pytest.raises(SystemExit):
        measured(tmp_path / "out", *files, *MODEL)
    assert "is not empty" in capsys.readouterr().err
