"""Several data sets as one, without losing what they are."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import TensorDataset

import tepui
from data_layouts import picture
from tepui.data import (
    Arrays,
    ImageFiles,
    ImageFolder,
    Normalize,
    joined,
)

NORMALIZE = Normalize((0.5,), (0.25,))


def arrays(samples, classes=(), seed=0, normalize=NORMALIZE):
    stream = torch.Generator().manual_seed(seed)
    images = torch.randint(256, (samples, 1, 4, 4), generator=stream).byte()
    count = max(len(classes), 1)
    return Arrays(images, torch.arange(samples) % count, normalize, classes)


def items(dataset):
    return [dataset[index] for index in range(len(dataset))]


def assert_same_samples(dataset, parts):
    expected = [item for part in parts for item in items(part)]
    for (x, y), (other, label) in zip(items(dataset), expected, strict=True):
        assert torch.equal(x, other)
        assert y == label


def test_tensors_stay_bytes_in_memory_with_classes_and_normalization():
    parts = [arrays(3, ("cat", "dog")), arrays(5, ("cat", "dog"), seed=1)]
    both = joined(parts)
    assert isinstance(both, Arrays)
    assert both.inputs.dtype == torch.uint8
    assert (both.classes, both.normalize) == (("cat", "dog"), NORMALIZE)
    assert_same_samples(both, parts)


def naive(parts):
    """Names of all classes in the order of their first appearance, and of samples."""
    names = list(dict.fromkeys(name for part in parts for name in part.classes))
    labels = [part.classes[label] for part in parts for label in part.targets.tolist()]
    return tuple(names), labels


@given(
    st.lists(
        st.permutations(["cat", "dog", "cow"]).flatmap(
            lambda names: st.integers(1, 3).map(lambda count: tuple(names[:count]))
        ),
        min_size=1,
        max_size=4,
    )
)
def test_labels_follow_the_names_of_classes(classes):
    parts = [arrays(4, names, seed) for seed, names in enumerate(classes)]
    both = joined(parts)
    expected, labels = naive(parts)
    assert both.classes == expected
    assert [both.classes[label] for label in both.targets.tolist()] == labels


def test_samples_without_a_label_get_none():
    first = Arrays(torch.zeros(2, 3), [0, 1], classes=("cat", "dog"))
    second = Arrays(torch.ones(3, 3), [-1, 0, 1], classes=("dog", "cat"))
    assert joined([first, second]).targets.tolist() == [0, 1, -1, 1, 0]
    pixels = torch.tensor([[[0, -100], [1, -1]]])
    maps = [
        Arrays(torch.zeros(1, 1, 2, 2), pixels, classes=names)
        for names in (("cat", "dog"), ("dog", "cat"))
    ]
    expected = [[[0, -100], [1, -1]], [[1, -100], [0, -1]]]
    assert joined(maps).targets.tolist() == expected


def test_labels_that_name_no_class_are_not_renumbered():
    for targets in ([0, 2], torch.zeros(2, 2)):
        parts = [
            Arrays(torch.zeros(2, 3), [0, 1], classes=("cat", "dog")),
            Arrays(torch.zeros(2, 3), targets, classes=("dog", "cat")),
        ]
        with pytest.raises(ValueError, match=r"datasets\[1\] must hold labels below 2"):
            joined(parts)


def test_image_files_stay_files(tmp_path):
    for domain, names in (("photo", ("ant", "bee")), ("sketch", ("ant", "bee"))):
        for number, name in enumerate(names):
            for image in range(5):
                shade = (100 * number, 10 * image, 0)
                picture(tmp_path / domain / name / f"{image}.png", shade, size=(6, 6))
    domains = [ImageFolder(tmp_path / d, part="all") for d in ("photo", "sketch")]
    both = joined(domains)
    assert isinstance(both, ImageFiles)
    assert both.files == domains[0].files + domains[1].files
    assert both.classes == ("ant", "bee")
    assert_same_samples(both, domains)
    other = ImageFolder(tmp_path / "sketch", part="all", size=4)
    for second in (other, arrays(2, normalize=other.normalize, classes=both.classes)):
        with pytest.raises(ValueError, match="all image files of one size and color"):
            joined([domains[0], second])


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([], "datasets must hold at least one data set"),
        (
            [arrays(2), arrays(2, normalize=None)],
            r"datasets\[1\] must be normalized and standardized as datasets\[0\]",
        ),
        ([arrays(2), arrays(2, ("cat",))], "name the classes of all data sets, or of"),
        ([[1, 2]], r"datasets\[0\] must be Arrays or image files"),
        (
            [arrays(2), Arrays(torch.zeros(2, 1, 4, 4), torch.zeros(2), NORMALIZE)],
            "hold inputs of one type and shape",
        ),
        (
            [
                Arrays({"a": torch.zeros(2, 3)}, torch.zeros(2)),
                Arrays({"b": torch.zeros(2, 3)}, torch.zeros(2)),
            ],
            "hold inputs of the same names",
        ),
    ],
)
def test_what_cannot_be_joined_is_said(parts, message):
    with pytest.raises(ValueError, match=message):
        joined(parts)


@pytest.mark.parametrize("names", [(), ("cat", "dog")])
def test_targets_of_other_shapes_are_refused(names):
    parts = [
        Arrays(torch.zeros(2, 3), targets, classes=names)
        for targets in (torch.eye(2).long(), torch.arange(2))
    ]
    rule = r"datasets\[1\] must be .* with targets of its shape, got"
    with pytest.raises(ValueError, match=rule):
        joined(parts)


def test_rows_of_several_labels_keep_the_order_of_their_classes():
    rows = torch.tensor([[1, 0], [1, 1]])
    alike, swapped = (
        Arrays(torch.zeros(2, 3), rows, classes=names)
        for names in (("cat", "dog"), ("dog", "cat"))
    )
    assert torch.equal(joined([alike, alike]).targets, rows.repeat(2, 1))
    rule = r"datasets\[1\] must name all classes in one order \(cat, dog\)"
    with pytest.raises(ValueError, match=rule):
        joined([alike, swapped])


def test_named_inputs_and_plain_tensors_are_joined():
    texts = [Arrays({"a": torch.full((n, 3), n)}, torch.arange(n)) for n in (2, 3)]
    assert torch.equal(joined(texts).inputs["a"][:, 0], torch.tensor([2, 2, 3, 3, 3]))
    plain = TensorDataset(torch.zeros(2, 3), torch.arange(2))
    assert len(joined([plain, plain])) == 4


def test_tables_standardized_by_other_rows_are_refused(tmp_path):
    for name, scale in (("a.csv", 1), ("b.csv", 9)):
        rows = [f"{scale * n / 2},{'yn'[n % 2]}" for n in range(20)]
        (tmp_path / name).write_text("\n".join(["size,sold", *rows]))
    one, other = (tepui.data.Table(tmp_path / f"{n}.csv", "sold") for n in "ab")
    test = tepui.data.Table(tmp_path / "a.csv", "sold", train=False)
    assert len(joined([one, test])) == 20
    with pytest.raises(ValueError, match=r"datasets\[1\] must be .*standardized as"):
        joined([one, other])
