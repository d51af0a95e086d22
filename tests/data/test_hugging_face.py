"""Columns of a Hugging Face data set as inputs and targets."""

import numpy as np
import pytest
import torch
from PIL import Image

from tepui.data import HuggingFace
from tepui.testing import check_dataset

datasets = pytest.importorskip("datasets")


def tokens(samples=8):
    columns = {
        "input_ids": [[n, n + 1, 2] for n in range(samples)],
        "attention_mask": [[1, 1, 0]] * samples,
        "text": [f"text {n}" for n in range(samples)],
        "label": [n % 2 for n in range(samples)],
    }
    table = datasets.Dataset.from_dict(columns)
    return table.cast_column("label", datasets.ClassLabel(names=["no", "yes"]))


def pictures(sizes):
    made = [Image.fromarray(np.full((s, s), 7, np.uint8)) for s in sizes]
    return datasets.Dataset.from_dict({"image": made, "y": [0] * len(sizes)})


def test_several_columns_are_named_inputs():
    data = HuggingFace(tokens(), "label", ["input_ids", "attention_mask"])
    inputs = data.raw(torch.tensor([3, 1]))
    assert list(inputs) == ["input_ids", "attention_mask"]
    assert inputs["input_ids"].tolist() == [[3, 4, 2], [1, 2, 2]]
    assert inputs["input_ids"].dtype == torch.int64
    assert data.targets.tolist() == [0, 1] * 4
    assert data.classes == ("no", "yes")
    check_dataset(data)


def test_one_name_in_a_list_is_a_named_input():
    data = HuggingFace(tokens(), "label", ["input_ids"])
    assert list(data.raw(torch.tensor([0]))) == ["input_ids"]


def test_the_only_other_column_is_the_input_and_floats_are_float32():
    table = datasets.Dataset.from_dict({"x": [[0.1, 2.0], [3.0, 4.0]], "y": [1, 0]})
    data = HuggingFace(table, "y")
    assert torch.equal(data[0][0], torch.tensor([0.1, 2.0]))


def test_a_format_of_the_data_set_is_not_used():
    table = tokens().with_format("torch", columns=["label"])
    data = HuggingFace(table, "label", "input_ids")
    assert data.raw(torch.tensor([0])).tolist() == [[0, 1, 2]]


def test_images_get_a_size_and_channels():
    data = HuggingFace(pictures([4, 6]), "y", size=2, gray=True)
    assert data.raw(torch.tensor([1, 0])).shape == (2, 1, 2, 2)
    assert HuggingFace(pictures([4, 4]), "y").raw(torch.tensor([0])).shape[1] == 3
    with pytest.raises(ValueError, match=r"images of one size in column 'image'"):
        HuggingFace(pictures([4, 6]), "y").raw(torch.tensor([0, 1]))


def test_columns_that_are_not_there_are_named_with_those_that_are():
    names = r"\['input_ids', 'attention_mask', 'text', 'label'\]"
    with pytest.raises(ValueError, match=rf"target must .* one of {names}, got 'y'"):
        HuggingFace(tokens(), "y", "input_ids")
    with pytest.raises(ValueError, match=rf"input must .* one of {names}, got 'ids'"):
        HuggingFace(tokens(), "label", ["input_ids", "ids"])
    with pytest.raises(ValueError, match=r"input must name the column"):
        HuggingFace(tokens(), "label")
    with pytest.raises(ValueError, match=r"input must name at least one column"):
        HuggingFace(tokens(), "label", [])


def test_texts_and_uneven_lists_are_refused_with_a_remedy():
    with pytest.raises(ValueError, match=r"column 'text' must hold numbers.*tokenizer"):
        HuggingFace(tokens(), "label", "text")
    table = datasets.Dataset.from_dict({"x": [[1], [1, 2]], "y": [0, 1]})
    with pytest.raises(ValueError, match=r"column 'x' must hold numbers"):
        HuggingFace(table, "y").raw(torch.tensor([0, 1]))


def test_a_stream_is_refused():
    with pytest.raises(ValueError, match=r"a datasets\.Dataset with length and order"):
        HuggingFace(tokens().to_iterable_dataset(), "label", "input_ids")


def test_other_rows_and_contents_have_another_identity():
    data = HuggingFace(tokens(), "label", "input_ids")
    same = HuggingFace(tokens(), "label", "input_ids")
    assert data.identity() == same.identity()
    others = [
        HuggingFace(tokens(9), "label", "input_ids"),
        HuggingFace(tokens(), "label", "attention_mask"),
        data.subset([1, 0]),
    ]
    assert all(other.identity() != data.identity() for other in others)
