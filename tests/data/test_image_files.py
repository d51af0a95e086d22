import numpy as np
import pytest
import torch
from PIL import Image

from data_layouts import picture
from tepui.data import Arrays, Frame, ImageFiles, image_files, to_arrays
from tepui.data.image_files import decode, decode_all, images_in
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
