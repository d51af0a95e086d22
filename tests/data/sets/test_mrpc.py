"""MRPC on invented pairs in its layout, and on the real ones where they are."""

import pytest
import torch

from data.mrpc_files import write
from tepui.data import MRPC, HuggingFaceTokenizer, Tokenizer


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    path = tmp_path_factory.mktemp("data")
    write(path)
    return path


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path)


def test_parts_have_the_published_sizes(root):
    train, held_out = MRPC(root), MRPC(root, train=False)
    assert (len(train), len(held_out)) == (3668, 408)
    assert train.classes == ("different", "paraphrase")
    assert train.targets.dtype == torch.int64
    assert set(train.targets.tolist()) == {0, 1}
    assert set(train.inputs) == {"input_ids", "attention_mask", "token_type_ids"}


def rows(labels, inputs):
    return [[label, *row] for label, row in zip(labels, inputs, strict=True)]


def test_labels_and_sentences_are_those_of_the_file(root):
    text = (root / "mrpc/msr_paraphrase_train.txt").read_text("utf-8-sig")
    lines = [line.split("\t") for line in text.splitlines()[1:]]
    parts = MRPC(root), MRPC(root, train=False)
    numbers = parts[0].tokenizer.batch([(first, second) for *_, first, second in lines])
    expected = rows([int(line[0]) for line in lines], numbers["input_ids"].tolist())
    found = [rows(p.targets.tolist(), p.inputs["input_ids"].tolist()) for p in parts]
    assert sorted(expected) == sorted(found[0] + found[1])


def published(folder, rows):
    text = "".join(f"{1000 + row}\t{9000 + row}\n" for row in rows)
    path = folder / "dev_ids.tsv"
    path.write_text(text)
    return path


def test_published_ids_choose_the_validation_pairs(folder, tmp_path):
    published(folder, range(100, 508))
    held_out = MRPC(tmp_path, train=False)
    official = (folder / "msr_paraphrase_train.txt").read_text("utf-8-sig").splitlines()
    labels = [int(line[0]) for line in official[101:509]]
    assert held_out.targets.tolist() == labels
    assert len(MRPC(tmp_path)) == 3668


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (range(407), r"dev_ids.tsv must name 408 pairs, got 407"),
        (range(5000, 5408), r"line 1 of .*dev_ids.tsv must hold the two ids"),
    ],
)
def test_other_ids_are_refused(folder, tmp_path, rows, message):
    published(folder, rows)
    with pytest.raises(ValueError, match=message):
        MRPC(tmp_path)


def edited(folder, change):
    path = folder / "msr_paraphrase_train.txt"
    path.write_bytes(change(path.read_bytes()))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda raw: raw[:-2000],
            r"(line \d+ of .* must hold a label|4076 pairs, got)",
        ),
        (lambda raw: raw[: raw.rindex(b"\r\n", 0, -2)], r"hold 4076 pairs, got 4075"),
        (lambda raw: raw.replace(b"\t1001\t", b"\tx\t"), r"line 3 of .* two ids"),
        (lambda raw: raw.replace(b"\n1\t", b"\n7\t", 1), r"must hold a label 0 or 1"),
        (lambda raw: raw.replace(b"Quality", b"Grade"), r"first line of .* must be"),
        (lambda raw: b"", r"first line of .* must be"),
        (lambda raw: raw + b"\xff\xfe", r"must be UTF-8 text"),
    ],
    ids=["truncated", "short", "id", "label", "header", "empty", "bytes"],
)
def test_damaged_files_are_refused(folder, tmp_path, change, message):
    edited(folder, change)
    with pytest.raises(ValueError, match=message):
        MRPC(tmp_path)


def test_a_missing_set_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setenv("TEPUI_DATA", str(tmp_path))
    for download in (False, True):
        with pytest.raises(FileNotFoundError, match=r"Place msr_paraphrase_train.txt"):
            MRPC(download=download)
    write(tmp_path)
    assert len(MRPC(train=False)) == 408


def test_vocabulary_and_length_bound_the_tokens(root):
    small = MRPC(root, vocabulary=1100, length=12)
    assert small.inputs["input_ids"].shape[1] == 12
    assert int(small.inputs["input_ids"].max()) < len(small.tokenizer) == 1100
    assert isinstance(small.tokenizer, Tokenizer)


def test_a_hugging_face_tokenizer_takes_the_place(root, tmp_path):
    library = pytest.importorskip(
        "transformers", reason="needs the extra text", exc_type=ImportError
    )
    words = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]", "the", "cat", "dog"]
    (tmp_path / "vocab.txt").write_text("\n".join(words) + "\n")
    library.BertTokenizerFast(str(tmp_path / "vocab.txt")).save_pretrained(tmp_path)
    data = MRPC(root, train=False, tokenizer=str(tmp_path))
    assert isinstance(data.tokenizer, HuggingFaceTokenizer)
    assert int(data.inputs["input_ids"].max()) < 8
    assert data.inputs["token_type_ids"].any()


def test_the_real_pairs(shared_data):
    train, held_out = MRPC(shared_data), MRPC(shared_data, train=False)
    assert (len(train), len(held_out)) == (3668, 408)
    assert int(train.targets.sum() + held_out.targets.sum()) == 2753
    assert int(train.inputs["attention_mask"].sum(1).max()) == 100
    assert len(train.tokenizer) == 8192
