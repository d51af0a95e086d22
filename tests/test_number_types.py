"""The same numbers in another type get the same answers, wherever they come in."""

import csv

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.utils.data import Dataset

import tepui
from tepui.cli.main import main
from tepui.data import Arrays, ArraysOnDisk, Normalize
from tepui.methods import DeepEnsemble
from tepui.models import MLP

WHOLE = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
TYPES = [*WHOLE, *FLOATS]
OF_NUMPY = [np.uint8, np.uint16, np.int8, np.int32, np.int64, np.float16, np.float64]
every_type = pytest.mark.parametrize("dtype", TYPES, ids=str)

STREAM = torch.Generator().manual_seed(0)
ROWS = torch.randint(0, 5, (60, 6), generator=STREAM).float()
LABELS = (ROWS[:, 0] > ROWS[:, 1]).long() + (ROWS[:, 2] > 2).long()
NORMALIZE = Normalize((1.9,) * 6, (1.4,) * 6)

some_rows = st.lists(
    st.lists(st.integers(0, 120), min_size=6, max_size=6), min_size=1, max_size=8
).map(lambda rows: torch.tensor(rows, dtype=torch.float64))


def network():
    return MLP(6, (8,), 3)


def trained(data, factory=network, **options):
    ensemble = tepui.Ensemble.build(factory, members=2, seed=3)
    how = {"method": DeepEnsemble(), "epochs": 2, "batch_size": 16, "progress": "none"}
    tepui.fit(ensemble, data, **how, **options)
    return ensemble


@pytest.fixture(scope="module", params=[None, NORMALIZE], ids=["as is", "normalized"])
def ensemble(request):
    return trained(Arrays(ROWS, LABELS, request.param))


def close(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


@given(values=some_rows, dtype=st.sampled_from(TYPES), raw=st.booleans())
@settings(max_examples=40, deadline=None)
def test_rows_are_predicted_alike(values, dtype, raw, ensemble):
    expected = ensemble.predict(values.float(), raw=raw).outputs
    given_rows = values.to(dtype)
    close(ensemble.predict(given_rows, raw=raw).outputs, expected)
    if dtype != torch.bfloat16:
        close(ensemble.predict(given_rows.numpy(), raw=raw).outputs, expected)
    if not raw:
        close(ensemble.logits(given_rows), expected)
        close(ensemble.predict(list(given_rows)).outputs, expected)


@given(
    values=some_rows,
    dtype=st.sampled_from(TYPES),
    mean=st.floats(-50, 50),
    std=st.floats(0.1, 50),
)
@settings(deadline=None)
def test_normalized_rows_follow_the_formula(values, dtype, mean, std):
    found = Normalize((mean,) * 6, (std,) * 6)(values.to(dtype))
    assert found.dtype == (dtype if dtype == torch.float64 else torch.float32)
    torch.testing.assert_close(
        found.double(), (values - mean) / std, rtol=1e-4, atol=1e-4
    )
    of = Normalize.of(values.to(dtype))
    np.testing.assert_allclose(of.mean, values.numpy().mean(0))


@every_type
def test_members_learn_the_same_from_rows_and_score_alike(dtype, ensemble):
    normalize = ensemble.preparation.normalize
    data = Arrays(ROWS.to(dtype), LABELS, normalize)
    learned = trained(data)
    same = torch.float64 if normalize else None  # normalized before it is rounded
    for found, expected in zip(
        learned.parameters(), ensemble.parameters(), strict=True
    ):
        if dtype == same:
            close(found, expected)
        else:
            assert torch.equal(found, expected)
    expected = tepui.evaluate(ensemble, Arrays(ROWS, LABELS, normalize)).clean
    found = tepui.evaluate(ensemble, data).clean
    assert found.accuracy == expected.accuracy
    assert found.nll == pytest.approx(expected.nll, rel=1e-5)
    others, labels = ROWS.flip(1), LABELS.flip(0)
    temperatures = []
    for kind in (dtype, torch.float32):
        ensemble.calibrate(Arrays(others.to(kind), labels, normalize))
        temperatures.append(ensemble.calibration.divisor)
    close(*temperatures)
    ensemble.calibration = None


def test_zeros_and_ones_may_be_truth_values():
    bits = ROWS > 2
    ensemble = trained(Arrays(bits, LABELS))
    close(ensemble.predict(bits.float()).outputs, ensemble.predict(bits).outputs)
    same = trained(Arrays(bits.float(), LABELS))
    close(same.predict(bits).outputs, ensemble.predict(bits.byte()).outputs)


class Own(Dataset):
    def __init__(self, inputs):
        self.inputs = inputs

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, index):
        return self.inputs[index], LABELS[index]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64], ids=str)
def test_data_sets_of_ones_own_and_on_disk_are_read_alike(dtype, tmp_path):
    expected = trained(Own(ROWS))
    learned = trained(Own(ROWS.to(dtype)))
    close(learned.logits(ROWS), expected.logits(ROWS))
    assert tepui.evaluate(learned, Own(ROWS.to(dtype))).clean.nll == pytest.approx(
        tepui.evaluate(learned, Own(ROWS)).clean.nll
    )
    np.save(tmp_path / "x.npy", ROWS.to(dtype).numpy())
    stored = trained(ArraysOnDisk(tmp_path / "x.npy", LABELS))
    same = trained(Arrays(ROWS, LABELS))
    close(stored.logits(ROWS), same.logits(ROWS))


def of_images():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 3))


PIXELS = torch.randint(0, 256, (60, 1, 8, 8), dtype=torch.uint8, generator=STREAM)
OF_IMAGES = Normalize((0.4,), (0.3,))


@pytest.mark.parametrize("normalize", [None, OF_IMAGES], ids=["as is", "normalized"])
@pytest.mark.parametrize(
    "kind", [Arrays, lambda x, y, _: Own(x)], ids=["tensors", "own"]
)
def test_bytes_of_images_are_scaled_to_one_and_floats_are_not(kind, normalize):
    of_bytes = kind(PIXELS, LABELS, normalize)
    of_floats = kind(PIXELS / 255, LABELS, normalize)
    first, second = (trained(data, of_images) for data in (of_bytes, of_floats))
    close(first.predict(of_bytes).outputs, second.predict(of_floats).outputs)
    if kind is Arrays:
        close(second.predict(PIXELS).outputs, first.predict(PIXELS).outputs)
        shares = first.predict(PIXELS / 255, raw=True)
        close(shares.outputs, first.predict(PIXELS).outputs)


@pytest.mark.parametrize("dtype", [torch.int16, torch.int32, torch.int64], ids=str)
def test_training_images_decide_how_whole_numbers_are_read(dtype):
    data = Arrays(PIXELS, LABELS, OF_IMAGES)
    ensemble = trained(data, of_images)
    expected = ensemble.predict(PIXELS).outputs
    close(ensemble.predict(PIXELS.to(dtype)).outputs, expected)
    large = torch.randint(0, 256, (4, 1, 13, 17), dtype=torch.uint8, generator=STREAM)
    close(ensemble.predict(large.to(dtype)).outputs, ensemble.predict(large).outputs)
    with pytest.raises(ValueError, match=r"bytes, from 0 to 255, .* from 300 to 300"):
        ensemble.predict(torch.full((2, 1, 8, 8), 300, dtype=dtype))
    whole = Arrays(PIXELS.to(dtype), LABELS, OF_IMAGES)
    with pytest.raises(ValueError, match=r"images must be bytes \(uint8\) or floats"):
        tepui.evaluate(ensemble, whole)
    with pytest.raises(ValueError, match="model must accept samples"):
        tepui.evaluate(ensemble, Arrays(PIXELS.to(dtype), LABELS))


def test_tokens_of_a_table_of_embeddings_stay_whole():
    words = torch.arange(60)[:, None] % torch.arange(1, 5)

    def reader():
        parts = nn.Embedding(60, 4), nn.Flatten(), nn.Linear(16, 3)
        return nn.Sequential(*parts).double()

    ensemble = trained(Arrays(words, LABELS), reader)
    again = ensemble.predict(words.numpy()).outputs
    close(again, ensemble.logits(words))
    assert again.dtype == torch.float64


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    place = tmp_path_factory.mktemp("run")
    ensemble = trained(Arrays(ROWS, LABELS, NORMALIZE))
    return ensemble.save(place / "run").parent


@pytest.mark.parametrize("dtype", OF_NUMPY, ids=lambda dtype: dtype.__name__)
def test_files_are_predicted_alike(dtype, run, tmp_path):
    np.save(tmp_path / "x.npy", ROWS.numpy().astype(dtype))
    out = tmp_path / "out.csv"
    words = [str(run), str(tmp_path / "x.npy"), "--probabilities", "--out", str(out)]
    main(["predict", *words])
    with out.open(newline="") as opened:
        rows = [*csv.DictReader(opened)]
    found = [[float(row[f"probability_{n}"]) for n in range(3)] for row in rows]
    expected = tepui.load(run).predict(ROWS, raw=True).probs
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


OF_SCIKIT_LEARN = [np.uint8, np.int8, np.int64, np.float16, np.float32, np.float64]


@pytest.mark.parametrize("kind", ["EnsembleClassifier", "EnsembleRegressor"])
def test_estimators_learn_and_predict_alike(kind):
    sklearn = pytest.importorskip("tepui.sklearn")
    answers = []
    for dtype in OF_SCIKIT_LEARN:
        estimator = getattr(sklearn, kind)(2, hidden=(8,), epochs=2, random_state=0)
        estimator.fit(ROWS.numpy().astype(dtype), LABELS.numpy())
        ask = getattr(estimator, "predict_proba", estimator.predict)
        answers += [ask(ROWS.numpy().astype(other)) for other in OF_SCIKIT_LEARN]
    for found in answers:
        np.testing.assert_allclose(found, answers[0], rtol=1e-4, atol=1e-5)
