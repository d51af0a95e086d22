"""Images that cannot be read: those read together are named together."""

import multiprocessing
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Subset

import tepui
from data_layouts import picture
from tepui.data import (
    CIFAR10,
    Arrays,
    Frame,
    ImageFiles,
    ImageFolder,
    Normalize,
    UnlabeledFolder,
    image_files,
    prepared_like,
    to_arrays,
)
from tepui.data.image_files import (
    UnreadableImageError,
    decode,
    decode_all,
    images_in,
    unreadable,
)
from tepui.data.loading import as_arrays, in_order

CPU = torch.device("cpu")


@pytest.fixture
def files(tmp_path):
    random = np.random.default_rng(0)
    made = []
    for number in range(6):
        pixels = random.integers(0, 256, (8, 8, 3), dtype=np.uint8)
        made.append(tmp_path / f"{number}.png")
        Image.fromarray(pixels).save(made[-1])
    return made


def naive(path):
    return torch.from_numpy(np.array(Image.open(path))).permute(2, 0, 1)


def test_images_are_bytes_with_channels_first(files):
    assert all(torch.equal(decode(path), naive(path)) for path in files)
    assert torch.equal(decode_all(files), torch.stack([naive(path) for path in files]))


@pytest.mark.parametrize("mode", ["L", "P", "RGBA", "1", "CMYK"])
def test_other_kinds_of_images_become_color(mode, tmp_path):
    path = tmp_path / ("x.jpg" if mode == "CMYK" else "x.png")
    Image.new("RGB", (4, 4), (255, 255, 255)).convert(mode).save(path)
    assert decode(path).shape == (3, 4, 4)
    assert (decode(path) >= 254).all()


@pytest.mark.parametrize("name", ["x.png", "x.tif", "x.pgm"])
def test_sixteen_bits_become_eight_by_their_share_of_white(name, tmp_path):
    ramp = np.append(np.arange(0, 65535, 97), [128, 129, 65406, 65407, 65535])
    Image.fromarray(ramp.astype(np.uint16)[None]).save(tmp_path / name)
    expected = [round(value * 255 / 65535) for value in ramp.tolist()]
    assert decode(tmp_path / name, gray=True)[0, 0].tolist() == expected
    color = decode(tmp_path / name)
    assert color[:, 0].tolist() == [expected] * 3
    part = decode(tmp_path / name, Frame(1), gray=True)
    assert 120 < int(part) < 135  # the middle of the ramp


def test_big_endian_sixteen_bits_and_other_maxima_are_read(tmp_path):
    values = np.array([0, 250, 500, 1000], ">u2")
    (tmp_path / "x.pgm").write_bytes(b"P5 4 1 1000\n" + values.tobytes())
    assert decode(tmp_path / "x.pgm", gray=True)[0, 0].tolist() == [0, 64, 128, 255]
    big = Image.frombytes("I;16B", (2, 1), np.array([257, 65535], ">u2").tobytes())
    big.save(tmp_path / "x.tif")
    assert decode(tmp_path / "x.tif", gray=True)[0, 0].tolist() == [1, 255]


@pytest.mark.parametrize("kind", [np.int32, np.float32])
@pytest.mark.parametrize("gray", [False, True])
def test_numbers_without_a_known_white_are_refused(kind, gray, tmp_path):
    path = tmp_path / "x.tif"
    Image.fromarray(np.arange(64, dtype=kind).reshape(8, 8)).save(path)
    said = r"x\.tif must be a valid image: .* 8 or 16 bits .*save.* PNG\), got '[IF]'"
    with pytest.raises(ValueError, match=said):
        decode(path, gray=gray)


def test_a_frame_scales_the_shorter_side_and_cuts_the_center(tmp_path):
    pixels = np.zeros((20, 40, 3), dtype=np.uint8)
    pixels[:, 10:30] = 200  # the center, a square
    Image.fromarray(pixels).save(tmp_path / "x.png")
    image = decode(tmp_path / "x.png", Frame(10))
    assert image.shape == (3, 10, 10)
    assert (image[:, :, 1:-1] == 200).all()


@pytest.mark.parametrize("size", [(3, 5), (5, 3), (7, 7), (1, 9)])
@pytest.mark.parametrize("side", [1, 2, 6])
def test_any_size_fits_any_frame(size, side, tmp_path):
    path = picture(tmp_path / "x.png", size=size)
    image = decode(path, Frame(side))
    assert image.shape == (3, side, side)
    assert (image == torch.tensor([120, 60, 30])[:, None, None]).all()


def test_images_of_two_sizes_are_named(files, tmp_path):
    odd = picture(tmp_path / "odd.png", size=(9, 8))
    with pytest.raises(ValueError, match=r"odd\.png must .*\(3, 8, 8\).*\(3, 8, 9\)"):
        decode_all([*files, odd])
    assert decode_all([*files, odd], Frame(8)).shape == (7, 3, 8, 8)


def test_images_are_found_at_any_depth_in_order(tmp_path):
    expected = [
        picture(tmp_path / name) for name in ("a/1.PNG", "a/b/2.jpeg", "c.JPEG")
    ]
    (tmp_path / "a" / "boxes.txt").write_text("")
    (tmp_path / "folder.png").mkdir()
    assert images_in(tmp_path) == expected


@pytest.mark.parametrize("suffix", ["tif", "tiff", "TIFF", "webp", "pgm", "gif"])
def test_less_common_formats_are_found_and_read(suffix, tmp_path):
    path = picture(tmp_path / f"x.{suffix}", size=(4, 4))
    assert images_in(tmp_path) == [path]
    assert decode(path).shape == (3, 4, 4)


def test_what_fits_is_held_in_tensors_once(files, monkeypatch):
    data = ImageFiles(files, range(6))
    held = as_arrays(data)
    assert isinstance(held, Arrays)
    assert held.inputs.dtype == torch.uint8
    assert as_arrays(data) is held
    assert to_arrays(data) is held
    monkeypatch.setattr("tepui.data.image_files.MEMORY", 6 * 8 * 8 * 3 - 1)
    assert as_arrays(ImageFiles(files, range(6))) is None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ImageFiles([], []), "files must hold at least one image"),
        (lambda: ImageFiles(["a"], [1, 2]), "targets must have one label per file"),
        (lambda: Frame(0), "size must be positive, got 0"),
        (lambda: Frame(8, 0.5), "margin must be at least 1"),
    ],
)
def test_mistakes_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_images_in_batches_are_never_all_held(files, monkeypatch):
    held = ImageFiles(files, [0] * 6)
    streamed = held.in_batches()
    batches = [batch.inputs for batch in in_order(held, 4, device=CPU)]
    monkeypatch.setattr(image_files, "decode_all", None)  # what would hold them
    assert as_arrays(streamed) is None
    assert as_arrays(streamed.subset([0, 1])) is None
    for inputs, batch in zip(batches, in_order(streamed, 4, device=CPU), strict=True):
        assert torch.equal(batch.inputs, inputs)
    with pytest.raises(TypeError):
        as_arrays(ImageFiles(files, [0] * 6))


CPU = torch.device("cpu")


def damage(*paths):
    for path in paths:
        path.write_bytes(b"no image")


def refused(make):
    """Return what an error says in its first line, and the files it names."""
    with pytest.raises(UnreadableImageError) as raised:
        make()
    first, *lines = str(raised.value).splitlines()
    named = {Path(line.strip().split(" must be a valid image: ")[0]) for line in lines}
    assert named == raised.value.reasons.keys()
    return first, {file.name for file in named}


@pytest.fixture
def learned(tmp_path):
    """Return the files of two classes, and what trains on them."""
    made = [picture(tmp_path / f"{n:02}.png", size=(8, 8)) for n in range(20)]

    def fit(data=None, **options):
        data = ImageFiles(made, [n % 2 for n in range(20)]) if data is None else data
        ensemble = tepui.Ensemble.build(
            lambda: torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 2)), 2
        )
        options = {"epochs": 1, "batch_size": 4, "progress": "none", **options}
        tepui.fit(ensemble, data, method=tepui.methods.DeepEnsemble(), **options)

    return made, fit


SEVERAL = "files must be images that can be read, got {} that cannot:"


def test_images_held_in_memory_are_named_together(learned):
    made, fit = learned
    damage(made[0], made[11], made[19])
    with pytest.raises(UnreadableImageError, match=r"^.*00\.png must be a valid image"):
        fit()
    picture(made[0], size=(8, 8))
    found = refused(fit)
    assert found == (SEVERAL.format(2), {"11.png", "19.png"})


def test_of_images_that_are_streamed_those_of_a_batch_are_named(learned, monkeypatch):
    monkeypatch.setattr(image_files, "MEMORY", 0)
    made, _ = learned
    damage(made[5], made[7], made[19])

    def read():
        return [*in_order(ImageFiles(made, [0] * 20), 4, device=CPU)]

    assert refused(read) == (SEVERAL.format(2), {"05.png", "07.png"})
    assert unreadable(made, None, False).keys() == {made[5], made[7], made[19]}


def test_an_image_that_may_not_be_read_is_one_of_them(learned, monkeypatch):
    made, fit = learned
    damage(made[4])
    kept = image_files.decode

    def guarded(path, *given, **options):
        if path == made[9]:
            raise PermissionError(13, "Permission denied", str(path))
        return kept(path, *given, **options)

    monkeypatch.setattr(image_files, "decode", guarded)
    with pytest.raises(UnreadableImageError, match="got 2 that cannot") as raised:
        fit()
    assert "Permission denied" in raised.value.reasons[made[9]]


def test_an_error_that_is_kept_keeps_no_worker(learned, monkeypatch):
    made, _ = learned
    damage(made[4])
    monkeypatch.setattr(image_files, "MEMORY", 0)
    before = {*multiprocessing.active_children()}
    data = Subset(ImageFiles(made, [0] * 20).in_batches(), range(20))
    with pytest.raises(UnreadableImageError):
        for _ in in_order(data, 2, device=CPU, workers=1):
            pass
    for worker in {*multiprocessing.active_children()} - before:
        worker.join(60)
    assert {*multiprocessing.active_children()} <= before


def flat(folder, classes=("cat", "dog"), images=10):
    for number, name in enumerate(classes):
        for image in range(images):
            shade = (50 * number + image, 0, 0)
            picture(folder / name / f"{image}.png", shade, size=(6, 6))
    return folder


@pytest.mark.parametrize("test_name", ["test", "val"])
def test_parts_on_disk_are_taken(test_name, tmp_path):
    flat(tmp_path / "train", images=3)
    flat(tmp_path / test_name, images=2)
    train, test = ImageFolder(tmp_path), ImageFolder(str(tmp_path), train=False)
    assert train.targets.tolist() == [0, 0, 0, 1, 1, 1]
    assert test.targets.tolist() == [0, 0, 1, 1]
    assert train.classes == test.classes == ("cat", "dog")
    assert test.files[0] == tmp_path / test_name / "cat" / "0.png"


def test_without_parts_a_fifth_of_each_class_is_for_test(tmp_path):
    flat(tmp_path, ("ant", "bee", "cat"))
    train, test = ImageFolder(tmp_path), ImageFolder(tmp_path, train=False)
    assert train.targets.bincount().tolist() == [8, 8, 8]
    assert test.targets.bincount().tolist() == [2, 2, 2]
    assert sorted([*train.files, *test.files]) == sorted(tmp_path.rglob("*.png"))


def test_a_new_image_moves_few_others(tmp_path):
    flat(tmp_path, images=40)
    before = set(ImageFolder(tmp_path, train=False).files)
    picture(tmp_path / "cat" / "new.png", size=(6, 6))
    after = set(ImageFolder(tmp_path, train=False).files)
    assert len(before - after) <= 1


def test_a_test_class_unknown_in_training_is_refused(tmp_path):
    flat(tmp_path / "train")
    flat(tmp_path / "test", ("cat", "dog", "emu"))
    for train in (True, False):
        with pytest.raises(
            ValueError, match=r"emu must be one of the 2 classes of .*tr"
        ):
            ImageFolder(tmp_path, train=train)


def test_absent_test_classes_keep_the_numbers(tmp_path):
    flat(tmp_path / "train")
    flat(tmp_path / "test", ("dog",), images=1)
    assert ImageFolder(tmp_path, train=False).targets.tolist() == [1]


def test_a_class_may_be_called_test(tmp_path):
    assert ImageFolder(flat(tmp_path, ("test",))).classes == ("test",)


def test_a_size_and_constants_can_be_given(tmp_path):
    data = ImageFolder(flat(tmp_path), size=3, mean=(0, 0, 0), std=(1, 1, 1))
    assert data[0][0].shape == (3, 3, 3)
    assert data.normalize == Normalize((0, 0, 0), (1, 1, 1))


def images_directly_in_it(folder):
    picture(folder / "0.png", size=(6, 6))


def empty_class(folder):
    flat(folder)
    (folder / "emu").mkdir()


def no_test(folder):
    flat(folder / "train")


def one_image_each(folder):
    flat(folder, images=1)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda folder: None, ValueError, "hold one folder per class"),
        (
            images_directly_in_it,
            ValueError,
            r"\(images/cat, .*, got 'images without one'",
        ),
        (empty_class, ValueError, "emu must hold images, got 'none'"),
        (no_test, FileNotFoundError, "must hold test or val beside train"),
        (one_image_each, ValueError, "leave at least one image in each part"),
        (lambda folder: folder.rmdir(), FileNotFoundError, "must be a folder"),
    ],
)
def test_mistakes_in_folders_are_named(make, error, message, tmp_path):
    folder = tmp_path / "images"
    folder.mkdir()
    make(folder)
    with pytest.raises(error, match=message):
        ImageFolder(folder, train=False)


def test_unlabeled_images_have_no_class(tmp_path):
    data = UnlabeledFolder(flat(tmp_path))
    assert len(data) == 20
    assert data.targets.unique().tolist() == [-1]
    assert data.held.inputs.shape == (20, 3, 6, 6)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="must hold images"):
        UnlabeledFolder(tmp_path / "empty")
    with pytest.raises(FileNotFoundError, match="no image or folder of images"):
        UnlabeledFolder(tmp_path / "nowhere")


def test_real_textures(shared_textures, shared_cifar):
    train = ImageFolder(shared_textures, size=32)
    test = ImageFolder(shared_textures, train=False, size=32)
    assert (len(train), len(test)) == (960, 240)
    assert train.classes[0] == "banded"
    test = CIFAR10(shared_cifar, train=False)
    ood = prepared_like(UnlabeledFolder(shared_textures), test)
    assert ood.held.inputs.shape == (1200, 3, 32, 32)
    assert ood.normalize == CIFAR10.normalization


def test_all_images_are_one_set(tmp_path):
    flat(tmp_path / "one")
    whole = ImageFolder(tmp_path / "one", part="all")
    assert list(whole.files) == sorted((tmp_path / "one").rglob("*.png"))
    assert whole.targets.bincount().tolist() == [10, 10]
    flat(tmp_path / "two" / "train", images=3)
    flat(tmp_path / "two" / "val", ("dog",), images=2)
    for train in (True, False):
        both = ImageFolder(tmp_path / "two", train, part="all")
        assert both.targets.tolist() == [0, 0, 0, 1, 1, 1, 1, 1]
    with pytest.raises(ValueError, match="part must be one of"):
        ImageFolder(tmp_path / "one", part="some")


def test_a_class_and_an_image_may_be_links(tmp_path):
    flat(tmp_path / "store")
    linked = tmp_path / "linked"
    (linked / "cat").mkdir(parents=True)
    (linked / "cat" / "again").symlink_to(linked)  # leads back to itself
    (linked / "cat" / "one.png").symlink_to(tmp_path / "store" / "dog" / "0.png")
    (linked / "cat" / "gone.png").symlink_to(tmp_path / "nothing.png")
    (linked / "dog").symlink_to(tmp_path / "store" / "dog")
    found = ImageFolder(linked, part="all")
    assert found.targets.bincount().tolist() == [1, 10]
    assert torch.equal(found[0][0], found[1][0])
