"""Noise on rows and words left out, against naive twins, and what data make of them."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tepui
from tepui.data import (
    Arrays,
    ColumnNoise,
    HorizontalFlip,
    Normalize,
    RandomCrop,
    Table,
    Texts,
    TrivialAugment,
    WordDropout,
    split,
)
from tepui.data.augment import augment, knowing
from tepui.data.corruptions.draws import philox, streams


def uniform(samples, seed=0):
    return torch.rand(samples, 2, generator=torch.Generator().manual_seed(seed))


def streams_naive(keys, count):
    """Return Philox's words number by number, each sample for itself."""
    rows = []
    for first, second in keys.tolist():
        words = []
        for position in range(count):
            counter = (position // 4, int(first * 2**24), int(second * 2**24), 0)
            four = philox(tuple(torch.tensor([c]) for c in counter), (0, 0))
            words.append((int(four[position % 4]) >> 8) / 2**24)
        rows.append(words)
    return rows


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 5), st.integers(1, 13), st.integers(0, 2**31))
def test_streams_match_their_naive_twin_and_begin_the_same(samples, count, seed):
    keys = uniform(samples, seed)
    found = streams(keys, count)
    assert found.tolist() == streams_naive(keys, count)
    assert torch.equal(streams(keys, count + 7)[:, :count], found)
    assert torch.equal(streams(keys[-1:], count), found[-1:])


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 5), st.integers(1, 9), st.floats(0, 10), st.integers(0, 2**31))
def test_noise_is_box_and_mullers_in_the_units_of_columns(samples, columns, std, seed):
    keys = uniform(samples, seed)
    rows = uniform(samples, seed + 1)[:, :1].expand(-1, columns).double()
    units = tuple(float(place) for place in range(columns))
    found = ColumnNoise(std, units)(rows, keys)
    for sample, words in enumerate(streams_naive(keys, 2 * columns)):
        for column, unit in enumerate(units):
            radius = math.sqrt(-2 * math.log(1 - words[column]))
            normal = radius * math.cos(2 * math.pi * words[columns + column])
            expected = float(rows[sample, column]) + std * unit * normal
            assert float(found[sample, column]) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
def test_noise_keeps_floats_and_makes_whole_numbers_floats(dtype):
    found = ColumnNoise()(torch.ones(4, 3, dtype=dtype), uniform(4))
    assert found.dtype == (torch.float32 if dtype == torch.int64 else dtype)
    assert not torch.equal(found, torch.ones_like(found))


@pytest.fixture
def table(tmp_path):
    """Return numbers, words and numbers again, with classes to predict."""
    lines = [f"{n}.5,{'red' if n % 3 else 'blue'},{n}.2,{n % 2}" for n in range(40)]
    (tmp_path / "t.csv").write_text("\n".join(["size,color,area,sold", *lines]))
    return Table(tmp_path / "t.csv", "sold")


def test_words_of_a_table_have_no_noise(table):
    part, _ = split(table, 0.2, seed=1)
    (step,) = knowing([ColumnNoise(0.3)], part)
    assert step == ColumnNoise(0.3, units=(1.0, 0.0, 0.0, 1.0))
    rows = part.raw(torch.arange(len(part)))
    changed = step(rows, uniform(len(part))) != rows
    assert changed.float().mean(0).tolist() == [1, 0, 0, 1]


def test_noise_is_added_to_standardized_numbers():
    raw = torch.tensor([[1e3, 5.0], [3e3, 9.0], [8e3, -4.0]])
    data = Arrays(raw, torch.tensor([0, 1, 0]), Normalize.of(raw))
    (step,) = knowing([ColumnNoise(0.1)], data)
    after = ColumnNoise(0.1)(data.prepare(raw), uniform(3))
    torch.testing.assert_close(data.prepare(step(raw, uniform(3))), after)
    given = ColumnNoise(0.1, units=(2.0, 0.0))
    assert knowing([given, ColumnNoise()], data)[0] is given
    assert knowing([ColumnNoise()], Arrays(raw, data.targets)) == (ColumnNoise(),)
    assert knowing([ColumnNoise()], [(raw[0], 0)]) == (ColumnNoise(),)


def texts():
    return Texts(["a good day", "a bad one", "fine"], [1, 0, 1], vocabulary=2048)


def test_word_dropout_matches_its_naive_twin():
    data = texts()
    (step,) = knowing([WordDropout(0.4)], data)
    assert step == WordDropout(0.4, token=0, special=(0, 1, 2))
    inputs, keys = data.raw(torch.arange(3)), uniform(3, seed=4)
    found = step(inputs, keys)
    expected = [
        [
            0 if token > 2 and word < 0.4 else token
            for token, word in zip(row, words, strict=True)
        ]
        for row, words in zip(
            inputs["input_ids"].tolist(), streams_naive(keys, 5), strict=True
        )
    ]
    assert found["input_ids"].tolist() == expected != inputs["input_ids"].tolist()
    assert found["attention_mask"] is inputs["attention_mask"]
    wider = {"input_ids": torch.nn.functional.pad(inputs["input_ids"], (0, 6))}
    assert torch.equal(step(wider, keys)["input_ids"][:, :5], found["input_ids"])


class Foreign:
    """Stands for a tokenizer of Hugging Face."""

    def __init__(self, **places):
        ids = {f"{name}_token_id": places.get(name) for name in ("unk", "mask", "pad")}
        vars(self).update(ids, all_special_ids=[7, *places.values()])


@pytest.mark.parametrize(
    ("places", "token"),
    [({"unk": 5, "mask": 6, "pad": 0}, 5), ({"mask": 6, "pad": 0}, 6), ({"pad": 0}, 0)],
    ids=str,
)
def test_a_foreign_tokenizer_has_its_own_tokens(places, token):
    known = tepui.data.HuggingFaceTokenizer.of(
        dict.fromkeys(("hugging_face", "model_input_names"), "")
        | {"special": {}, "padding_side": "", "truncation_side": ""}
    )
    vars(known)["tokenizer"] = Foreign(**places)
    found = WordDropout().knowing(tepui.data.Preparation(tokenizer=known))
    assert found == WordDropout(token=token, special=(7, *places.values()))


def test_texts_of_an_unknown_tokenizer_need_a_token():
    data = Arrays({"input_ids": torch.ones(2, 3).long()}, torch.tensor([0, 1]))
    with pytest.raises(ValueError, match="token of WordDropout must be given, with"):
        knowing([WordDropout()], data)
    with pytest.raises(ValueError, match="token must be given without a tokenizer"):
        WordDropout()(data.inputs, uniform(2))
    given = WordDropout(token=9)
    assert knowing([given], data) == (given,)


INPUTS = {
    "images": torch.zeros(2, 3, 8, 8),
    "rows": torch.zeros(2, 5),
    "texts": {"input_ids": torch.ones(2, 4).long()},
    None: torch.zeros(2, 5, 6),
}


@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize(
    "step", [RandomCrop(), TrivialAugment(), ColumnNoise(), WordDropout(token=0)]
)
def test_each_augments_its_own_kind(step, kind):
    draws = torch.rand(2, step.draws)
    if step.of == kind:
        augment(INPUTS[kind], [step], draws)
        return
    name = type(step).__name__
    rule = f"for {kind}, as the inputs are" if kind else "empty for inputs of shape"
    match = f"augment must be {rule}.* got '{name} for {step.of}'"
    with pytest.raises(ValueError, match=match):
        augment(INPUTS[kind], [step], draws)


def bag(inputs):
    return torch.nn.functional.one_hot(inputs["input_ids"], 2048).float().mean(1)


class Words(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.last = torch.nn.Linear(2048, 2)

    def forward(self, input_ids, attention_mask):
        return self.last(bag({"input_ids": input_ids}))


@pytest.mark.parametrize("kind", ["rows", "texts"])
def test_training_knows_the_data_and_refuses_other_kinds(kind, table, tmp_path):
    data, build, step, wrong = (
        (table, lambda: torch.nn.Linear(4, 2), ColumnNoise(0.2), WordDropout())
        if kind == "rows"
        else (texts(), Words, WordDropout(0.5), HorizontalFlip())
    )

    def trained(*steps, out=None):
        ensemble = tepui.Ensemble.build(build, members=1)
        how = {"epochs": 2, "batch_size": 8, "augment": steps, "out": out}
        tepui.fit(ensemble, data, method=tepui.methods.DeepEnsemble(), **how)
        return [p.detach().clone() for p in ensemble.members[0].parameters()]

    with pytest.raises(ValueError, match=f"augment must be for {kind}, as the inputs"):
        trained(step, wrong, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    known = knowing([step], data)[0]
    assert known != step
    for found, same in zip(trained(step), trained(known), strict=True):
        assert torch.equal(found, same)
    assert not torch.equal(trained(step)[0], trained()[0])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: ColumnNoise(-1.0), "std must lie in .*, got -1.0"),
        (lambda: WordDropout(2.0), r"probability must lie in .*, got 2.0"),
        (
            lambda: ColumnNoise(units=(1.0,))(torch.zeros(2, 3), uniform(2)),
            "units must have one entry for each of 3 columns, got 1",
        ),
        (
            lambda: ColumnNoise()(torch.zeros(2, 3), torch.zeros(2, 3)),
            r"uniform must have shape \(2, 2\), one column per draw",
        ),
    ],
)
def test_bad_settings_are_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_captured_graph_gives_the_rows_and_texts_of_the_cpu():
    for step, inputs in (
        (ColumnNoise(0.5, units=(1.0, 0.0, 3.0)), torch.rand(50, 3)),
        (WordDropout(0.5, 0, (1, 2)), {"input_ids": torch.arange(250).view(50, 5)}),
    ):
        keys = uniform(50)
        expected = step(inputs, keys)
        lying = tepui.data.arrays.map_inputs(torch.Tensor.cuda, inputs)
        numbers = keys.cuda()
        step(lying, numbers)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            found = step(lying, numbers)
        graph.replay()
        torch.testing.assert_close(found, expected, rtol=0, atol=0, check_device=False)
