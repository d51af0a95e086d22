import hashlib
from pathlib import Path

import pooch
import pytest
import torch

import tepui
from data_layouts import (
    cifar10_binary,
    fashion_mnist,
    images_and_labels,
    picture,
)
from tepui.cli.main import main
from tepui.data import CIFAR10, FashionMNIST
from tepui.data.published import RECORD, Download, Origin
from tepui.evaluation import read_evaluation

SMALL = ["--epochs", "1", "--members", "2", "--set", "batch_size=8", "progress=none"]


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A data folder with small copies of the real sets."""
    folder = tmp_path / "data"
    monkeypatch.setenv("TEPUI_DATA", str(folder))
    monkeypatch.setattr(CIFAR10, "num_samples", {True: 40, False: 8})
    monkeypatch.setattr(FashionMNIST, "num_samples", {True: 40, False: 10})
    data = [*images_and_labels(40, 10), *images_and_labels(8, 10, seed=1)]
    cifar10_binary(folder, *data)
    for part, samples in (("train", 40), ("t10k", 10)):
        gray = images_and_labels(samples, 10, shape=(1, 28, 28))
        fashion_mnist(folder / "fashion-mnist", *gray, part)
    return folder


@pytest.fixture
def corrupted_cifar(root, tmp_path, capsys):
    """A run on CIFAR10 and its miniature, corrupted, where CIFAR-10-C belongs."""
    run = str(tmp_path / "run")
    main(["train", "--data", "CIFAR10", *SMALL, "--out", run])
    made = str(root / "CIFAR-10-C")
    types = ["--types", "contrast", "fog"]
    main(["corrupt", "--data", "CIFAR10", *types, "--out", made])
    capsys.readouterr()
    return run


def evaluated(run, *words):
    main(["evaluate", run, "--overwrite", *words])
    return read_evaluation(Path(run))


def test_a_published_corrupted_set_is_named(corrupted_cifar, root):
    data = ["--data", "CIFAR10"]
    found = evaluated(corrupted_cifar, *data, "--copies", "CIFAR10C")
    assert {cell["type"] for cell in found["cells"]} == {"contrast", "fog"}
    folder = str(root / "CIFAR-10-C")
    assert found == evaluated(corrupted_cifar, *data, "--copies", folder)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("CIFAR100C", "CIFAR100C is not in"),
        ("TinyImageNetC", "tepui data fetch TinyImageNetC"),
        ("ImageNetC", "Place it by hand"),
        ("cifar10-c", "not a folder, must be one of CIFAR100C, CIFAR10C, ImageNetC"),
        ("cifar10-c", "did you mean 'CIFAR10C'"),
    ],
)
def test_a_corrupted_set_that_is_not_there_says_how_to_get_it(
    name, message, corrupted_cifar, capsys
):
    with pytest.raises(SystemExit):
        evaluated(corrupted_cifar, "--data", "CIFAR10", "--copies", name)
    assert message in capsys.readouterr().err


@pytest.fixture
def imagenet(root, monkeypatch):
    """A miniature of ImageNet with five classes, and of ImageNet-A with two."""
    monkeypatch.setattr("tepui.data.sets.imagenet.CLASSES", 5)
    wnids = ["n01", "n02", "n03", "n04", "n05"]
    for number, wnid in enumerate(wnids):
        for image in range(3):
            shade = (50 * number, 255 - 20 * image, 30)
            for part in ("train", "val"):
                file = root / "imagenet" / part / wnid / f"{image}.png"
                picture(file, shade, size=(10, 12))
            if wnid in ("n02", "n05"):
                picture(root / "imagenet-a" / wnid / f"{image}.png", shade)
    return root


def test_members_choose_between_the_classes_of_the_data(imagenet, tmp_path, capsys):
    run = str(tmp_path / "run")
    main(["train", "--data", "ImageNet(size=8)", *SMALL, "--out", run])
    data = ["--data", "ImageNetA(size=8)", "--corruptions", "none"]
    held = evaluated(run, *data)
    logits = tepui.read_logits(run).clean[0]
    assert "2 classes" in capsys.readouterr().out
    everything = evaluated(run, *data, "--set", "classes=all")
    full, labels = tepui.read_logits(run).clean
    assert (held["classes"], everything["classes"]) == (2, 5)
    assert torch.equal(logits, full[..., [1, 4]])
    right = full[..., [1, 4]].softmax(-1).mean(0).argmax(-1) == (labels == 4)
    assert held["clean"]["accuracy"] == pytest.approx(float(right.float().mean()))
    right = full.softmax(-1).mean(0).argmax(-1) == labels
    assert everything["clean"]["accuracy"] == pytest.approx(float(right.float().mean()))
    assert held["clean"]["nll"] < everything["clean"]["nll"]


@pytest.mark.parametrize("words", [["data"], ["data", "list"]])
def test_the_list_says_what_is_there_and_what_is_needed(words, root, capsys):
    main(words)
    shown = " ".join(capsys.readouterr().out.split())
    names = ("CIFAR10", "ImageNetA", "Digits", "ImageFolder", "UniformNoise")
    for name in (*names, "CIFAR10C", "CIFAR100C", "TinyImageNetC", "ImageNetC"):
        assert f" {name} " in shown
    assert "cifar-10-batches-bin" in shown
    assert "fetch: 2,918 MB" in shown
    assert "Place it by hand" in shown
    assert f"data folder: {root}" in shown


def test_fetch_then_verify(root, tmp_path, capsys, monkeypatch):
    """Without a network: the files lie in the data folder."""
    downloads = []
    for path in sorted((root / "fashion-mnist").iterdir()):
        content = path.read_bytes()
        path.rename(root / path.name)
        known = f"md5:{hashlib.md5(content).hexdigest()}"
        downloads.append(Download(f"http://127.0.0.1:9/{path.name}", known, 1))
    (root / "fashion-mnist").rmdir()
    origin = Origin(("fashion-mnist",), tuple(downloads))
    monkeypatch.setattr(FashionMNIST, "origin", origin)

    def served(url, known_hash, name, folder, downloader):
        return (root / name).rename(folder / name)

    monkeypatch.setattr(pooch, "retrieve", served)
    main(["data", "fetch", "FashionMNIST"])
    assert "md5:" in capsys.readouterr().out
    main(["verify", str(root / "fashion-mnist")])
    shown = " ".join(capsys.readouterr().out.split())
    assert "file of a data set │ 4 │ 0" in shown
    assert "nothing is damaged" in shown
    changed = root / "fashion-mnist" / downloads[0].file
    changed.write_bytes(changed.read_bytes()[:-1])
    with pytest.raises(SystemExit) as stop:
        main(["verify", str(root / "fashion-mnist")])
    assert stop.value.code == 1
    assert "must have sha256" in capsys.readouterr().out
    assert (root / "fashion-mnist" / RECORD).exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fetch", "CIFAR"], "did you mean 'CIFAR10'"),
        (["fetch"], "name must be one of"),
        (["fetch", "ImageNetA"], "ImageNetA cannot be fetched. Place it by hand"),
        (["fetch", "CIFAR10", "--root", "here"], "Max retries exceeded"),
        (["list", "SVHN"], "action must be fetch with a name"),
        (["fetsh", "SVHN"], "fetsh"),
    ],
)
def test_mistakes_end_in_one_line(words, message, root, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    nowhere = Download("http://127.0.0.1:9/x.tar.gz", f"md5:{'0' * 32}", 1)
    monkeypatch.setattr(CIFAR10, "origin", Origin(("cifar-10-batches-py",), (nowhere,)))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with pytest.raises(SystemExit) as stop:
        main(["data", *words])
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


@pytest.mark.parametrize("command", ["evaluate", "calibrate", "export", "measure"])
def test_data_of_an_ensemble_that_does_not_name_them_must_be_named(
    command, tmp_path, capsys
):
    saved = tmp_path / "saved"
    tepui.Ensemble.build(tepui.models.MLP, members=1).save(saved)
    before = {file: file.read_bytes() for file in saved.iterdir()}
    with pytest.raises(SystemExit):
        main([command, str(saved)])
    message = "was trained on unknown data"
    assert message in capsys.readouterr().err
    assert {file: file.read_bytes() for file in saved.iterdir()} == before
