"""Every file that tepui reads, at small size: how it is made and how it is read.

What tepui writes for itself is sealed: a change must be noticed. Pixels, labels and
foreign weights carry no redundancy: a change may be read, but never as an error of
another library.
"""

import io
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file
from scipy.io import savemat

import tepui
from data_layouts import idx, images_and_labels, python2_pickle
from study_cases import write_compared
from tepui.core.storage import raw_bytes, write_document
from tepui.data import ArrayFile, Arrays, StoredArray, corrupted
from tepui.data.corruptions.files import corrupted_files, write_corrupted
from tepui.data.image_files import decode, listed_classes
from tepui.data.published import RECORD, check_record, unpack, write_record
from tepui.data.sets.cifar import read_cifar_pickle
from tepui.data.sets.images import SVHN, read_idx
from tepui.ensembles.foreign_weights import read_checkpoint
from tepui.evaluation.gallery import read_gallery, write_gallery
from tepui.evaluation.stored_logits import read_logits
from tepui.methods import DeepEnsemble
from tepui.models import MLP
from tepui.modules.features import cached_features
from tepui.report.comparison import (
    read_trained,
)
from tepui.studies.results import Record, read_results, results, write_results
from tepui.studies.store import Store, read_index
from tepui.training.run_folder import RunFolder

X = torch.rand(12, 1, 4, 4, generator=torch.Generator().manual_seed(0))
DATA = Arrays((X * 255).byte(), torch.arange(12) % 3)
LARGER = Arrays(DATA.inputs.repeat(1, 3, 8, 8), DATA.targets)


@dataclass(frozen=True)
class Case:
    """A file: how it is made in a folder, how it is read, whether it is sealed."""

    make: Callable[[Path], Path]
    read: Callable[[Path], object]
    sealed: bool = True


def plain(value):
    """Return a value that can be compared: tensors become numbers."""
    if isinstance(value, torch.Tensor):
        return str(value.dtype), tuple(value.shape), raw_bytes(value).tolist()
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, value.tobytes()
    if is_dataclass(value) and not isinstance(value, type):
        return type(value).__name__, plain(vars(value))
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def ensemble():
    return tepui.Ensemble.build(lambda: MLP(16, [5], 3), members=2, seed=1)


def run(folder):
    how = {
        "method": DeepEnsemble(),
        "epochs": 2,
        "validation": 0.25,
        "keep": "best",
        "progress": "none",
    }
    tepui.fit(ensemble(), DATA, batch_size=6, device="cpu", out=folder, **how)
    return RunFolder(folder)


def evaluated(folder):
    tepui.evaluate(ensemble(), DATA, out=folder)
    write_gallery(folder, DATA)
    return folder


def sharpness(folder):
    evaluated(folder)
    document = {"about": {"n": 1}, "found": {"worst_case": {"mean": 0.25}}}
    write_document(folder / "sharpness.json", "measurement", document)
    return folder / "sharpness.json"


def comparison(folder):
    write_compared(folder, {"SAM": ["SAM/0"]}, {"epochs": 2})
    return folder / "results.json"


def index(folder):
    Store(folder, names={"digest": "SAM/0"}).write_index()
    return folder / "index.json"


def study(folder):
    names = {"item": "a/b", "dataset": "d", "architecture": "m", "method": "sam"}
    record = Record(**names, metric="accuracy", value=0.5, unit="fraction", n=1)
    made = results("a/b", "t", "small", {}, [record], torch.device("cpu"))
    write_results(folder, made)
    return folder / "results.json"


def saved_ensemble(folder):
    return ensemble().save(folder)


def features(folder):
    cached_features(torch.nn.Flatten(), DATA, folder)
    (file,) = folder.glob("features-*")
    return file


def copies(folder):
    write_corrupted(corrupted(LARGER, types=["fog"]), folder)
    return folder


def read_copies(file):
    return [*corrupted_files(file.parent, LARGER).values()]


def record(folder):
    (folder / "a.bin").write_bytes(b"abc" * 9)
    write_record(folder, {"url": "md5:0"})
    return folder / RECORD


def numpy_file(folder):
    np.save(folder / "x.npy", DATA.inputs.numpy())
    return folder / "x.npy"


def stored_safetensors(folder):
    save_file({"x": DATA.inputs, "y": DATA.targets}, folder / "x.safetensors")
    return folder / "x.safetensors"


def npz(folder):
    arrays = {"x_train": DATA.inputs.numpy(), "y_train": DATA.targets.numpy()}
    np.savez_compressed(folder / "a.npz", **arrays)
    return folder / "a.npz"


def npy_folder(folder):
    np.save(folder / "x_train.npy", DATA.inputs.numpy())
    np.save(folder / "y_train.npy", DATA.targets.numpy())
    return folder / "x_train.npy"


def compressed_idx(folder):
    idx(folder / "images", DATA.inputs[:, 0].numpy(), compressed=True)
    return folder / "images.gz"


def plain_idx(folder):
    idx(folder / "images", DATA.inputs[:, 0].numpy(), compressed=False)
    return folder / "images"


def pickle_of_cifar(folder):
    images, labels = images_and_labels(4, 10)
    rows = images.reshape(4, -1)
    content = python2_pickle({"data": rows, "labels": [int(n) for n in labels]})
    (folder / "data_batch_1").write_bytes(content)
    return folder / "data_batch_1"


def mat(folder):
    images = np.zeros((32, 32, 3, 4), dtype=np.uint8)
    arrays = {"X": images, "y": np.arange(1, 5, dtype=np.uint8)[:, None]}
    savemat(folder / "train_32x32.mat", arrays, do_compression=True)
    return folder / "train_32x32.mat"


def picture(kind):
    def make(folder):
        file = folder / f"a.{kind}"
        Image.fromarray(DATA.inputs[0, 0].repeat(4, 4).numpy()).save(file)
        return file

    return make


def torch_weights(folder):
    torch.save({"state_dict": ensemble().members[0].state_dict()}, folder / "a.pt")
    return folder / "a.pt"


def safetensors_weights(folder):
    save_file(ensemble().members[0].state_dict(), folder / "a.safetensors")
    return folder / "a.safetensors"


def archive(kind):
    def make(folder):
        file = folder / f"a.{kind}"
        content = {"x/a.txt": b"a" * 700, "x/b.bin": bytes(range(256)) * 3}
        if kind == "zip":
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as zipped:
                for name, data in content.items():
                    zipped.writestr(name, data)
            return file
        with tarfile.open(file, f"w:{kind.partition('.')[2]}") as tar:
            for name, data in content.items():
                about = tarfile.TarInfo(name)
                about.size = len(data)
                tar.addfile(about, io.BytesIO(data))
        return file

    return make


def read_archive(file):
    with tempfile.TemporaryDirectory() as folder:
        unpack(file, Path(folder))
        found = sorted(path for path in Path(folder).rglob("*") if path.is_file())
        return {str(p.relative_to(folder)): p.read_bytes() for p in found}


def class_list(folder):
    (folder / "wnids.txt").write_text("n01\nn02\nn03\n")
    return folder / "wnids.txt"


def of_run(name):
    return lambda folder: run(folder).path / name


CASES = {
    "run.json": Case(of_run("run.json"), lambda f: RunFolder(f.parent).recorded()),
    "outcome.json": Case(
        of_run("outcome.json"),
        lambda f: RunFolder(f.parent).outcome(),
    ),
    "checkpoint.json": Case(
        of_run("checkpoint.json"), lambda f: RunFolder(f.parent).load_checkpoint()
    ),
    "member of a checkpoint": Case(
        of_run("checkpoint/member0-2.safetensors"),
        lambda f: RunFolder(f.parent.parent).load_checkpoint().member(0),
    ),
    "metrics.jsonl": Case(
        of_run("metrics.jsonl"), lambda f: RunFolder(f.parent).history()
    ),
    "ensemble": Case(
        saved_ensemble,
        lambda f: [tepui.load(f.parent).state_dict(), tepui.load(f.parent).seeds],
    ),
    "logits": Case(
        lambda f: evaluated(f) / "evaluations/clean.safetensors",
        lambda f: read_logits(f.parents[1]),
    ),
    "evaluations/clean.json": Case(
        lambda f: evaluated(f) / "evaluations/clean.json",
        lambda f: read_trained(f.parents[1]),
    ),
    "gallery.json": Case(
        lambda f: evaluated(f) / "gallery.json", lambda f: read_gallery(f.parent)
    ),
    "sharpness.json": Case(sharpness, lambda f: read_trained(f.parent)),
    "index.json": Case(index, lambda f: read_index(f.parent)),
    "results.json": Case(study, lambda f: read_results(f.parent)),
    "cached features": Case(
        features, lambda f: cached_features(torch.nn.Flatten(), DATA, f.parent)
    ),
    "corruptions.json": Case(lambda f: copies(f) / "corruptions.json", read_copies),
    "record of a data set": Case(record, lambda f: [*check_record(f.parent)]),
    "corrupted copies": Case(lambda f: copies(f) / "fog.npy", read_copies, False),
    "stored npy": Case(numpy_file, lambda f: StoredArray.open(f).read_all(), False),
    "stored safetensors": Case(
        stored_safetensors, lambda f: StoredArray.open(f, "x").read_all(), False
    ),
    "npz": Case(npz, lambda f: vars(ArrayFile(f)), False),
    "npy in a folder": Case(npy_folder, lambda f: vars(ArrayFile(f.parent)), False),
    "idx.gz": Case(compressed_idx, lambda f: read_idx(f.with_suffix(""), 3), False),
    "idx": Case(plain_idx, lambda f: read_idx(f, 3), False),
    "CIFAR's pickle": Case(pickle_of_cifar, read_cifar_pickle, False),
    "mat": Case(mat, lambda f: SVHN._read(None, f.parent, True), False),
    "png": Case(picture("png"), decode, False),
    "jpeg": Case(picture("jpg"), decode, False),
    "gif": Case(picture("gif"), decode, False),
    "tiff": Case(picture("tiff"), decode, False),
    "torch weights": Case(torch_weights, read_checkpoint, False),
    "safetensors weights": Case(safetensors_weights, read_checkpoint, False),
    "zip": Case(archive("zip"), read_archive, False),
    "tar": Case(archive("tar"), read_archive, False),
    "tar.gz": Case(archive("tar.gz"), read_archive, False),
    "tar.xz": Case(archive("tar.xz"), read_archive, False),
    "list of classes": Case(class_list, lambda f: listed_classes(f, 3), False),
}
