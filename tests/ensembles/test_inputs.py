"""Predicting from inputs of any kind, raw or prepared."""

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset

import tepui
from tepui import Ensemble
from tepui.data import Arrays, ImageFolder, Normalize, Texts, UnlabeledFolder
from tepui.methods import DeepEnsemble

PIXELS = torch.randint(0, 256, (24, 3, 8, 8), dtype=torch.uint8)
LABELS = torch.arange(24) % 3
NORMALIZE = Normalize((0.4, 0.5, 0.6), (0.2, 0.3, 0.4))
IMAGES = Arrays(PIXELS, LABELS, NORMALIZE, ("a", "b", "c"))


def classifier():
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 64, 3))


def of_two():
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 64, 2))


def trained(data=IMAGES, factory=classifier, **options):
    ensemble = Ensemble.build(factory, members=2)
    how = {"method": DeepEnsemble(), "epochs": 1, "progress": "none", **options}
    tepui.fit(ensemble, data, **how)
    return ensemble


@pytest.fixture(scope="module")
def ensemble():
    return trained()


@pytest.fixture(scope="module")
def expected(ensemble):
    return ensemble.logits(IMAGES.prepare(PIXELS))


class Own(Dataset):
    """A data set with code of its own, with targets or without."""

    def __init__(self, labeled):
        self.labeled = labeled

    def __len__(self):
        return len(LABELS)

    def __getitem__(self, index):
        image = IMAGES[index][0]
        return (image, int(LABELS[index])) if self.labeled else image


PREPARED = IMAGES.prepare(PIXELS)
KINDS = {
    "bytes": PIXELS,
    "bytes of numpy": PIXELS.numpy(),
    "prepared": PREPARED,
    "prepared by numpy": PREPARED.double().numpy(),
    "data set": IMAGES,
    "subset": Subset(IMAGES, range(24)),
    "tensors": TensorDataset(PREPARED, LABELS),
    "own": Own(True),
    "own without targets": Own(False),
    "list of pairs": [(PREPARED[n], n) for n in range(24)],
    "list of tensors": list(PREPARED),
    "list of arrays": [image.numpy() for image in PREPARED],
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_samples_in_any_form_get_the_same_answer(kind, ensemble, expected):
    out = ensemble.predict(KINDS[kind], batch_size=10)
    torch.testing.assert_close(out.outputs, expected, rtol=1e-5, atol=1e-5)


def test_floats_are_raw_only_if_one_says_so(ensemble, expected):
    shares = PIXELS.float() / 255
    raw = ensemble.predict(shares, raw=True).outputs
    torch.testing.assert_close(raw, expected, rtol=1e-5, atol=1e-5)
    assert not torch.allclose(ensemble.predict(shares).outputs, expected)


class Both(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.layer = nn.Embedding(4, 5), nn.Linear(7, 3)

    def forward(self, kind, numbers):
        return self.layer(torch.cat([self.table(kind), numbers], 1))


def test_mappings_come_as_tensors_numpy_and_data_sets():
    inputs = {"kind": torch.arange(12) % 4, "numbers": torch.randn(12, 2)}
    data = Arrays(inputs, torch.arange(12) % 3)
    ensemble = trained(data, Both)
    expected = ensemble.logits(inputs)
    arrays = {name: tensor.numpy() for name, tensor in inputs.items()}
    for kind in (inputs, arrays, data, [data[n][0] for n in range(12)]):
        torch.testing.assert_close(ensemble.predict(kind).outputs, expected)


@pytest.fixture
def folder(tmp_path):
    generator = np.random.default_rng(0)
    for name in ("train", "test"):
        for label in ("cat", "dog"):
            place = tmp_path / name / label
            place.mkdir(parents=True)
            for number in range(4):
                pixels = generator.integers(0, 256, (20, 24, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(place / f"{number}.png")
    return tmp_path


def test_image_files_and_folders_are_prepared_as_in_training(folder, tmp_path):
    ensemble = trained(ImageFolder(folder, size=8), of_two)
    test = ImageFolder(folder, train=False, size=8)
    expected = ensemble.predict(test).outputs
    torch.testing.assert_close(ensemble.predict(folder / "test").outputs, expected)
    torch.testing.assert_close(ensemble.predict(str(folder / "test")).outputs, expected)
    several = ensemble.predict([str(file) for file in test.files]).outputs
    torch.testing.assert_close(several, expected)
    unlabeled = ensemble.predict(UnlabeledFolder(folder / "test")).outputs
    torch.testing.assert_close(unlabeled, expected)
    one = ensemble.predict(test.files[3]).outputs
    torch.testing.assert_close(one, expected[:, 3:4])
    ensemble.save(tmp_path / "saved")
    loaded = tepui.load(tmp_path / "saved", factory=of_two)
    assert loaded.preparation == ensemble.preparation
    out = loaded.predict(folder / "test" / "cat")
    torch.testing.assert_close(out.outputs, expected[:, :4])
    assert set(out.label_names) <= {"cat", "dog"}


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag, self.layer = nn.EmbeddingBag(2048, 8), nn.Linear(8, 2)

    def forward(self, input_ids, attention_mask):
        return self.layer(self.bag(input_ids))


def test_texts_are_turned_into_numbers_by_the_tokenizer_of_training(tmp_path):
    texts = ["a good day", "a bad day", "good", "bad"]
    data = Texts(texts, [1, 0, 1, 0], vocabulary=2048)
    ensemble = trained(data, Words, validation=0.25, batch_size=2)
    expected = ensemble.predict(data).outputs
    first = ensemble.predict(texts[0]).outputs
    alone = Texts(texts[:1], [1], tokenizer=data.tokenizer)
    torch.testing.assert_close(first, ensemble.predict(alone).outputs)
    ensemble.save(tmp_path / "saved")
    loaded = tepui.load(tmp_path / "saved", factory=Words)
    torch.testing.assert_close(loaded.predict(texts).outputs, expected)


class Endless(IterableDataset):
    def __iter__(self):
        yield torch.zeros(3, 8, 8)


@pytest.mark.parametrize(
    "inputs",
    [
        3.5,
        None,
        [[1.0, 2.0], [3.0, 4.0]],
        [],
        {},
        {"x": [1.0]},
        Endless(),
        b"bytes",
        {"x": "text"},
        object(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_not_known_is_refused_with_what_is(inputs, ensemble):
    got = f"got {type(inputs).__name__}"
    with pytest.raises(ValueError, match=rf"^inputs must be a tensor, .*{got}"):
        ensemble.predict(inputs)


def test_bad_inputs_are_refused_in_words(ensemble, tmp_path):
    with pytest.raises(FileNotFoundError, match="no image or folder of images"):
        ensemble.predict(tmp_path / "missing.png")
    with pytest.raises(ValueError, match="must hold images, got 'none'"):
        ensemble.predict(tmp_path)
    with pytest.raises(ValueError, match=r"inputs must be .* got DataLoader"):
        ensemble.predict(DataLoader(IMAGES))
    with pytest.raises(ValueError, match="raw must be False for data sets"):
        ensemble.predict(IMAGES, raw=True)
    with pytest.raises(ValueError, match="model must accept samples of shape"):
        ensemble.predict(torch.zeros(2, 5))
    with pytest.raises(ValueError, match="inputs must hold numbers"):
        ensemble.predict(np.array(["a", "b"]))


def test_who_does_not_know_the_preparation_takes_no_raw_inputs(tmp_path):
    unprepared = Ensemble.build(classifier, members=2)
    with pytest.raises(ValueError, match="know how its training data were prepared"):
        unprepared.predict(PIXELS)
    with pytest.raises(ValueError, match="know how its training data were prepared"):
        unprepared.predict(PREPARED, raw=True)
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(tmp_path / "a.png")
    with pytest.raises(ValueError, match="prepared to take image files"):
        unprepared.predict(tmp_path)
    own = trained(Own(True))
    assert own.preparation is None


def test_a_damaged_meaning_is_named(tmp_path, ensemble):
    from tepui.core.storage import read_tensors, write_tensors

    ensemble.save(tmp_path)
    file = tmp_path / "ensemble.safetensors"
    tensors, document = read_tensors(file, "ensemble")
    wrong = {"task": "Magic()", "preparation": {"os": 1}}
    for key, value in wrong.items():
        write_tensors(file, "ensemble", tensors, document | {key: value})
        with pytest.raises(ValueError, match=r"ensemble\.safetensors must say"):
            tepui.load(tmp_path, factory=classifier)
