import json
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import tepui
from tepui.data import HuggingFaceTokenizer, Preparation, Texts, Tokenizer
from tepui.data.texts import _shortened
from tepui.methods import DeepEnsemble
from tepui.models import Albert

TEXTS = ["The cat sat on the mat.", "A cat, a dog!", "the end"]


def test_frequent_words_have_numbers_and_the_alphabet_breaks_ties():
    tokenizer = Tokenizer.build(TEXTS, size=10, buckets=2)
    assert tokenizer.words == ("the", "a", "cat", "!", ",")
    assert len(tokenizer) == 10
    assert tokenizer.encode("The CAT,a") == [3, 5, 7, 4]


def test_unknown_words_share_buckets_and_repeat():
    tokenizer = Tokenizer.build(TEXTS, size=10, buckets=2)
    (one,), (again,) = tokenizer.encode("zebra"), tokenizer.encode("ZEBRA")
    assert one == again
    numbers = {tokenizer.encode(f"word{n}")[0] for n in range(50)}
    assert numbers == {8, 9}


WORDS = st.text("ab .,ÄÆ9_\u4e2d\n", max_size=20)


@given(st.lists(WORDS, min_size=1, max_size=5), st.integers(20, 60), st.integers(1, 16))
def test_every_number_lies_below_the_length(texts, size, buckets):
    tokenizer = Tokenizer.build(texts, size=size, buckets=buckets)
    assert len(tokenizer) <= size
    for text in [*texts, "something new"]:
        assert all(3 <= number < len(tokenizer) for number in tokenizer.encode(text))


def test_pairs_have_the_layout_that_models_expect():
    tokenizer = Tokenizer(("a", "b", "c"), buckets=1)
    found = tokenizer.batch([("a b", "c"), ("c", "c")])
    assert found["input_ids"].tolist() == [[1, 3, 4, 2, 5, 2], [1, 5, 2, 5, 2, 0]]
    assert found["attention_mask"].tolist() == [[1] * 6, [1] * 5 + [0]]
    assert found["token_type_ids"].tolist() == [[0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 1, 0]]
    assert {value.dtype for value in found.values()} == {torch.int64}


def naive_shortened(one, other, room):
    one, other = list(one), list(other)
    while len(one) + len(other) > room:
        (one if len(one) > len(other) else other).pop()
    return one, other


@given(st.integers(0, 30), st.integers(0, 30), st.integers(1, 40))
def test_the_longer_sentence_loses_words(first, second, room):
    one, other = _shortened(list(range(first)), list(range(second)), room)
    expected = naive_shortened(range(first), range(second), room)
    assert (one, other) == expected


def test_a_long_pair_is_cut_to_the_length():
    tokenizer = Tokenizer(("a",), buckets=1)
    found = tokenizer.batch([("a " * 50, "a " * 3)], length=12)["input_ids"]
    assert found.shape == (1, 12)
    assert found[0].tolist() == [1, *[3] * 6, 2, *[3] * 3, 2]


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match=r"size must be greater than 1027, got 100"):
        Tokenizer.build(TEXTS, size=100)
    with pytest.raises(ValueError, match=r"length must be greater than 3, got 3"):
        Tokenizer(("a",), 1).batch([("a", "a")], length=3)
    for texts, got in (([], "at least one text"), (["a", ("a", "b")], "all pairs")):
        with pytest.raises(ValueError, match=f"texts must .*{got}"):
            Tokenizer(("a",), 1).batch(texts)


def saved_by_the_library(folder):
    """A folder with a tokenizer of eight words, as its library saves it."""
    library = pytest.importorskip(
        "transformers", reason="needs the extra text", exc_type=ImportError
    )
    words = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]", "a", "b", "c"]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    library.BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    return folder


def test_a_hugging_face_tokenizer_has_the_same_layout(tmp_path):
    theirs = HuggingFaceTokenizer(saved_by_the_library(tmp_path))
    found = theirs.batch([("a b", "c"), ("c", "c")], length=9)
    ours = Tokenizer(("x", "y", "a", "b", "c"), buckets=1)
    expected = ours.batch([("a b", "c"), ("c", "c")])
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in found)
    assert len(theirs) == 8


def test_code_beside_a_tokenizer_is_not_run(tmp_path, monkeypatch):
    pytest.importorskip(
        "transformers", reason="needs the extra text", exc_type=ImportError
    )
    trace = tmp_path / "imported"
    code = f"from pathlib import Path\nPath({str(trace)!r}).touch()\n"
    (tmp_path / "code_beside.py").write_text(code)
    words = {"auto_map": {"AutoTokenizer": ["code_beside.Slow", "code_beside.Fast"]}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(words))
    monkeypatch.setattr("builtins.input", lambda *words: "y")
    with pytest.raises((ValueError, OSError)):
        HuggingFaceTokenizer(tmp_path)
    assert not trace.exists()


def test_a_hugging_face_tokenizer_travels_with_its_ensemble(tmp_path):
    tokenizer = HuggingFaceTokenizer(saved_by_the_library(tmp_path))
    texts = ["a b", "c", "a c c", "b"]
    train = Texts(texts * 4, [0, 1, 1, 0] * 4, tokenizer=tokenizer, length=9)

    def make():
        return Albert(
            vocabulary=8,
            embedding=8,
            width=8,
            depth=1,
            heads=2,
            length=9,
            num_classes=2,
        )

    ensemble = tepui.Ensemble.build(make, members=2, seed=0)
    how = {"method": DeepEnsemble(), "device": "cpu", "progress": "none"}
    tepui.fit(ensemble, train, epochs=1, **how)
    ensemble.save(tmp_path / "saved")
    for file in tmp_path.glob("*.*"):
        file.unlink()  # nothing of the library's own folder is needed
    again = tepui.load(tmp_path / "saved")
    assert isinstance(again.preparation.tokenizer, HuggingFaceTokenizer)
    for new in (["a c unknown", "b"], "c c a", [("a b", "c")]):
        assert torch.equal(again.predict(new).probs, ensemble.predict(new).probs)
    inputs = again.predict(train.inputs).probs
    torch.testing.assert_close(again.predict(texts * 4).probs, inputs)


def test_a_stored_tokenizer_that_is_none_is_refused(tmp_path):
    with pytest.raises(ValueError, match="tokenizer must be one of Hugging Face"):
        HuggingFaceTokenizer.of({"hugging_face": "{}", "special": {}})
    stored = HuggingFaceTokenizer(saved_by_the_library(tmp_path)).document()
    with pytest.raises(ValueError, match="tokenizer must be one of Hugging Face"):
        HuggingFaceTokenizer.of(stored | {"hugging_face": "{}"}).batch(["a"])


def test_an_ensemble_is_loaded_where_the_library_is_missing(tmp_path, monkeypatch):
    tokenizer = HuggingFaceTokenizer(saved_by_the_library(tmp_path))
    stored = Preparation(tokenizer=tokenizer).document()
    monkeypatch.setitem(sys.modules, "transformers", None)
    again = Preparation.of(json.loads(json.dumps(stored)))
    assert json.dumps(again.document()) == json.dumps(stored)
    with pytest.raises(ImportError, match="transformers is not installed"):
        again.texts(["a"])
