"""One file answers like the ensemble, in a process that knows neither tepui nor torch.

What an ensemble says is the reference; no exported graph is compared with another.
"""

import json
import resource
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import Subset

import tepui
from elsewhere import answers_elsewhere, check_same
from tepui import tasks
from tepui.data import Arrays, Normalize, Texts
from tepui.data.preparation import preparation_of
from tepui.export import export_ensemble
from tepui.models import ConvNet, ResNet18, ViTTiny

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

SIZES = (1, 2, 7)
STREAM = torch.Generator().manual_seed(0)
BYTES = torch.randint(0, 256, (24, 1, 8, 8), dtype=torch.uint8, generator=STREAM)
IMAGES = Arrays(
    BYTES, torch.arange(24) % 10, Normalize((0.3,), (0.4,)), tuple("abcdefghij")
)
TABLE = {
    "city": torch.randint(0, 5, (24,), generator=STREAM),
    "numbers": 9 * torch.randn(24, 3, generator=STREAM),
}
CITIES = Arrays(TABLE, torch.arange(24) % 2, classes=("no", "yes"))
NUMBERS = Arrays(
    100 * torch.rand(24, 3, generator=STREAM),
    torch.rand(24, 2, generator=STREAM),
    Normalize((50.0,) * 3, (30.0,) * 3),
)
WORDS = ["a good day", "a bad day", "what a kind and good word", "bad", "cruel", "good"]
TEXTS = Texts(WORDS * 4, [1, 0, 1, 0, 0, 1] * 4, classes=("bad", "good"))


class Tabular(nn.Module):
    def __init__(self):
        super().__init__()
        self.city, self.norm = nn.Embedding(5, 4), nn.BatchNorm1d(3)
        self.head = nn.Sequential(nn.Linear(7, 8), nn.ReLU(), nn.Linear(8, 2))

    def forward(self, city, numbers):
        return self.head(torch.cat([self.city(city), self.norm(numbers)], 1))


class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        size = len(TEXTS.tokenizer)
        self.words, self.head = nn.Embedding(size, 6), nn.Linear(6, 2)

    def forward(self, input_ids, attention_mask):
        mask = attention_mask[..., None].to(self.words.weight.dtype)
        return self.head((self.words(input_ids) * mask).sum(1) / mask.sum(1))


@dataclass
class Case:
    make: Any
    data: Any
    task: tasks.Task | None = None
    calibration: str | None = None
    conformal: str | None = None
    options: dict = field(default_factory=dict)

    def ensemble(self, members=2):
        made = tepui.Ensemble.build(self.make, members=members, seed=3, task=self.task)
        made.preparation = preparation_of(self.data)
        with (
            torch.no_grad()
        ):  # statistics of BatchNorm that are not those it began with
            made(self.data.prepare(self.data.raw(torch.arange(24))))
        if self.calibration:
            made.calibrate(self.data, self.calibration)
        if self.conformal:
            # Not the samples that are compared, which might lie on the threshold.
            made.conformal(self.data.subset(range(14, 24)), 0.7, self.conformal)
        return made


def small_vit():
    return ViTTiny(depth=1, in_channels=1, image_size=8, patch_size=4)


CASES = {
    "ConvNet": Case(ConvNet, IMAGES, calibration="temperature", conformal="threshold"),
    "intervals": Case(
        lambda: nn.Linear(3, 4), NUMBERS, tasks.Gaussians(), conformal="normalized"
    ),
    "text": Case(Bag, TEXTS),
}
slow = pytest.mark.slow
ANSWERS = torch.rand(24, 2, generator=STREAM).round()
YES_OR_NO = Arrays(NUMBERS.inputs, ANSWERS, NUMBERS.normalize)
LABELS = Case(lambda: nn.Linear(3, 2), YES_OR_NO, tasks.Labels(), calibration="vector")
LARGE = {
    "tabular": Case(Tabular, CITIES, calibration="vector", conformal="aps"),
    "labels": LABELS,
    "ViT": Case(small_vit, IMAGES, conformal="aps"),
    "ResNet18": Case(lambda: ResNet18(in_channels=1), IMAGES),
    "mixture": Case(lambda: nn.Linear(3, 4), NUMBERS, tasks.Gaussians()),
}
EVERY = [
    *(pytest.param(case, id=name) for name, case in CASES.items()),
    *(pytest.param(case, id=name, marks=slow) for name, case in LARGE.items()),
]


def rows(inputs, size):
    index = torch.arange(size) + 5
    if isinstance(inputs, dict):
        return {name: tensor[index] for name, tensor in inputs.items()}
    return inputs[index]


@pytest.mark.parametrize("case", EVERY)
def test_onnxruntime_alone_gives_the_same_answers(case, tmp_path):
    ensemble = case.ensemble()
    file = tmp_path / "model.onnx"
    exported = export_ensemble(ensemble, case.data, file)
    assert max(exported.differences.values()) < 1e-5
    assert len(exported.sizes) > 2
    batches = [rows(case.data.inputs, size) for size in SIZES]
    found = answers_elsewhere(file, batches, tmp_path)
    for batch, answers in zip(batches, found, strict=True):
        check_same(answers, ensemble.predict(batch, raw=True))


def test_texts_of_other_lengths_go_through_the_same_file(tmp_path):
    ensemble = CASES["text"].ensemble()
    file = tmp_path / "model.onnx"
    export_ensemble(ensemble, ["a good day", "bad"], file)
    texts = ["good and kind and good and kind and good and kind"]
    batch = ensemble.preparation.texts(texts)
    (found,) = answers_elsewhere(file, [batch], tmp_path)
    wanted = ensemble.predict(texts).probs.numpy()
    np.testing.assert_allclose(found["probs"], wanted, rtol=0, atol=1e-5)


def test_the_file_says_what_it_is_and_nothing_of_its_sources(tmp_path):
    file = tmp_path / "model.onnx"
    export_ensemble(CASES["ConvNet"].ensemble(members=1), IMAGES, file)
    assert b".py" not in file.read_bytes()
    model = onnx.load(file)
    onnx.checker.check_model(model)
    about = {prop.key: prop.value for prop in model.metadata_props}
    assert about["task"] == "Classes()"
    assert json.loads(about["classes"]) == list("abcdefghij")
    assert about["tepui"] == tepui.__version__
    assert (about["members"], about["calibration"]) == ("1", "temperature")
    (given,) = model.graph.input
    shape = [d.dim_param or d.dim_value for d in given.type.tensor_type.shape.dim]
    assert (given.name, shape) == ("inputs", ["batch", 1, 8, 8])
    assert given.type.tensor_type.elem_type == onnx.TensorProto.UINT8


def test_torch_runs_a_program_of_its_own(tmp_path):
    case = Case(ConvNet, IMAGES, calibration="isotonic")
    ensemble, file = case.ensemble(), tmp_path / "model.pt2"
    export_ensemble(ensemble, IMAGES, file, to="torch")
    about = {"tepui.json": ""}
    program = torch.export.load(file, extra_files=about)
    assert json.loads(about["tepui.json"])["calibration"] == "isotonic"
    for size in SIZES:
        batch = rows(BYTES, size)
        with torch.no_grad():
            answers = program.module()(batch)
        expected = ensemble.predict(batch)
        torch.testing.assert_close(answers["probs"], expected.probs, rtol=0, atol=1e-5)
        assert torch.equal(answers["labels"], expected.labels)


def test_a_shared_extractor_runs_once(tmp_path):
    body = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten()).eval()
    ensemble = tepui.Ensemble.on_features(body, lambda: nn.Linear(144, 3), 3)
    file = tmp_path / "model.onnx"
    export_ensemble(ensemble, torch.rand(4, 1, 8, 8), file)
    operations = [node.op_type for node in onnx.load(file).graph.node]
    assert operations.count("Conv") == 1
    assert operations.count("Gemm") == 3


def test_what_differs_too_much_is_not_written(tmp_path):
    file = tmp_path / "model.onnx"
    ensemble = CASES["ConvNet"].ensemble()
    with pytest.raises(ValueError, match=r"must differ .* at most 1e-12 .*got"):
        export_ensemble(ensemble, IMAGES, file, tolerance=1e-12)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError, match="tolerance must be positive"):
        export_ensemble(ensemble, IMAGES, file, tolerance=0.0)


def test_nothing_is_overwritten_silently(tmp_path):
    file = tmp_path / "model.pt2"
    file.write_text("mine")
    ensemble = LABELS.ensemble()
    with pytest.raises(FileExistsError, match="overwrite=True"):
        export_ensemble(ensemble, NUMBERS, file, to="torch")
    assert file.read_text() == "mine"
    export_ensemble(ensemble, Subset(NUMBERS, [3]), file, to="torch", overwrite=True)
    assert set(torch.export.load(file).module()(NUMBERS.inputs)) >= {"probs", "labels"}


class ByValue(nn.Linear):
    def forward(self, x):
        return super().forward(x) if x.sum() > 0 else super().forward(-x)


class ByLength(nn.Linear):
    def forward(self, x):
        return super().forward(x) + torch.zeros(len(x), 1)


class ByRows(nn.Linear):
    def forward(self, x):
        return super().forward(x[x.sum(1) > 0])


class Unheard(nn.Linear):
    def forward(self, x):
        return super().forward(torch.special.bessel_j0(x))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (ByValue, r"one graph for batches of any size.*, but: "),
        (ByLength, r"one graph for batches of any size.*, but: "),
        (ByRows, r"one graph for batches of any size.*, but: "),
        (Unheard, r"operations that ONNX has .*, but: .*bessel_j0"),
    ],
)
def test_a_module_that_cannot_be_exported_is_refused_in_words(
    kind, message, tmp_path, capfd
):
    ensemble = tepui.Ensemble.build(lambda: kind(3, 2), members=2)
    with pytest.raises(ValueError, match=message):
        export_ensemble(ensemble, torch.rand(6, 3), tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


def test_the_ensemble_is_left_as_it_was(tmp_path):
    ensemble = LABELS.ensemble().train()
    before = {n: t.clone() for n, t in ensemble.state_dict().items()}
    export_ensemble(ensemble, NUMBERS, tmp_path / "a.pt2")
    assert ensemble.training
    after = ensemble.state_dict()
    assert all(torch.equal(before[n], after[n]) for n in before)
    raw = ensemble.predict(NUMBERS.inputs, raw=True).probs
    assert not isinstance(raw, torch._subclasses.FakeTensor)  # nothing traced is kept


def test_sets_with_a_seed_are_the_ensembles_in_batches_of_any_size(tmp_path):
    ensemble = CASES["ConvNet"].ensemble()
    # Not the samples that are compared, which might lie on the limit.
    ensemble.conformal(IMAGES.subset(range(14, 24)), 0.7, "aps", seed=1)
    seen = BYTES[:14]
    sets = ensemble.predict(seen, raw=True).sets
    assert 0 < sets.double().mean() < 1
    files = tmp_path / "model.pt2", tmp_path / "model.onnx"
    for file in files:
        export_ensemble(ensemble, IMAGES, file)
    program = torch.export.load(files[0]).module()
    for size in (1, 3, 14):
        parts = seen.split(size)
        assert torch.equal(torch.cat([program(part)["sets"] for part in parts]), sets)
        found = answers_elsewhere(files[1], parts, tmp_path)
        assert (np.concatenate([part["sets"] for part in found]) == sets.numpy()).all()


@pytest.mark.parametrize(
    "how", [{"per": "class"}, {"shift": IMAGES.subset(range(14))}], ids=str
)
def test_sets_of_each_class_and_by_weights_are_exported(how, tmp_path):
    ensemble = CASES["ConvNet"].ensemble()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # too few of some class
        ensemble.conformal(IMAGES.subset(range(14, 24)), 0.5, "aps", **how)
    sets = ensemble.predict(BYTES[:14], raw=True).sets
    for file in (tmp_path / "model.pt2", tmp_path / "model.onnx"):
        found = export_ensemble(ensemble, IMAGES.subset(range(14)), file)
        assert found.differences["sets"] < 1e-6
    program = torch.export.load(tmp_path / "model.pt2").module()
    assert torch.equal(program(BYTES[:14])["sets"], sets)


def test_a_full_disk_is_told_with_the_file(tmp_path):
    ensemble, file = CASES["intervals"].ensemble(), tmp_path / "full.onnx"
    before, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        with pytest.raises(OSError, match=rf"^{file} could not be written"):
            export_ensemble(ensemble, NUMBERS, file)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, hard))
    assert not [*tmp_path.iterdir()]
