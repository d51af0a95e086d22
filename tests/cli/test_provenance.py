"""A page that the command line writes holds no absolute path."""

from tepui.cli.main import main


def test_a_page_and_its_options_show_no_absolute_path(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    out = str(tmp_path / "runs" / "one")
    words = ["compare", "--methods", "DeepEnsemble", "--members", "2", "--epochs", "1"]
    words += ["--ensembles", "1", "--out", out]
    words += ["--set", "corruptions=none", "sharpness=2", "progress=none"]
    monkeypatch.setattr("sys.argv", ["tepui", *words, "--hub.token", "SECRET"])
    main(words)
    page = tmp_path / "runs" / "one" / "report.html"
    assert str(tmp_path) not in page.read_text()
    assert "--out runs/one" in page.read_text()
    kept = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert not [file for file in kept if b"SECRET" in file.read_bytes()]
