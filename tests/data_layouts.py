"""Small data sets in the layouts of the real ones, written by tests."""

import gzip
import struct

import numpy as np
from PIL import Image


def python2_pickle(value):
    """Write a pickle as Python 2 did for CIFAR: protocol 2, byte strings, old numpy."""
    return b"\x80\x02" + _pickled(value, _Memo()) + b"."


class _Memo:
    def __init__(self):
        self.count = 0

    def put(self):
        self.count += 1
        if self.count < 256:
            return b"q" + bytes([self.count])
        return b"r" + struct.pack("<I", self.count)


def _pickled(value, memo):
    if isinstance(value, str):
        data = value.encode("latin-1")
        return _string(data) + memo.put()
    if isinstance(value, int):
        return _integer(value)
    if isinstance(value, list):
        items = b"".join(_pickled(item, memo) for item in value)
        return b"]" + memo.put() + b"(" + items + b"e"
    if isinstance(value, dict):
        items = b"".join(
            _pickled(k, memo) + _pickled(v, memo) for k, v in value.items()
        )
        return b"}" + memo.put() + b"(" + items + b"u"
    return _array(value, memo)


def _string(data):
    if len(data) < 256:
        return b"U" + bytes([len(data)]) + data
    return b"T" + struct.pack("<i", len(data)) + data


def _integer(value):
    if 0 <= value < 256:
        return b"K" + bytes([value])
    if 0 <= value < 65536:
        return b"M" + struct.pack("<H", value)
    return b"J" + struct.pack("<i", value)


def _array(array, memo):
    kind = {"uint8": b"u1", "float32": b"f4"}[array.dtype.name]
    return b"".join(
        [
            b"cnumpy.core.multiarray\n_reconstruct\n" + memo.put(),
            b"cnumpy\nndarray\n" + memo.put(),
            b"K\x00\x85" + memo.put() + b"U\x01b\x87" + memo.put() + b"R" + memo.put(),
            b"(K\x01" + b"".join(map(_integer, array.shape)) + b"\x86",
            b"cnumpy\ndtype\n" + memo.put() + b"U\x02" + kind + b"K\x00K\x01\x87R",
            b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb",
            b"\x89" + _string(array.tobytes()) + b"tb",
        ]
    )


def images_and_labels(samples, classes, seed=0, shape=(3, 32, 32)):
    """Random images that all differ, and labels that use the highest class."""
    random = np.random.default_rng(seed)
    images = random.integers(0, 256, (samples, *shape), dtype=np.uint8)
    labels = random.integers(0, classes, samples)
    labels[-1] = classes - 1
    return images, labels


def names(classes):
    return [f"class_{number}" for number in range(classes)]


def cifar10_python(root, images, labels, test_images, test_labels):
    folder = root / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    parts = zip(np.split(images, 5), np.split(labels, 5), strict=True)
    for number, (part, classes) in enumerate(parts, start=1):
        batch = _batch(part, classes, f"training batch {number} of 5", "labels")
        (folder / f"data_batch_{number}").write_bytes(batch)
    batch = _batch(test_images, test_labels, "testing batch 1 of 1", "labels")
    (folder / "test_batch").write_bytes(batch)
    meta = {"num_cases_per_batch": 10000, "label_names": names(10), "num_vis": 3072}
    (folder / "batches.meta").write_bytes(python2_pickle(meta))
    (folder / "readme.html").write_text("<html></html>")
    return folder


def cifar10_binary(root, images, labels, test_images, test_labels):
    folder = root / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    parts = zip(np.split(images, 5), np.split(labels, 5), strict=True)
    for number, (part, classes) in enumerate(parts, start=1):
        rows = np.column_stack([classes, part.reshape(len(part), -1)])
        rows.astype(np.uint8).tofile(folder / f"data_batch_{number}.bin")
    rows = np.column_stack([test_labels, test_images.reshape(len(test_images), -1)])
    rows.astype(np.uint8).tofile(folder / "test_batch.bin")
    (folder / "batches.meta.txt").write_text("\n".join(names(10)) + "\n\n")
    return folder


def cifar100_python(root, images, labels, test_images, test_labels):
    folder = root / "cifar-100-python"
    folder.mkdir(parents=True)
    (folder / "train").write_bytes(_batch(images, labels, "train", "fine_labels"))
    (folder / "test").write_bytes(_batch(test_images, test_labels, "t", "fine_labels"))
    meta = {"fine_label_names": names(100), "coarse_label_names": names(20)}
    (folder / "meta").write_bytes(python2_pickle(meta))
    return folder


def cifar100_binary(root, images, labels, test_images, test_labels):
    folder = root / "cifar-100-binary"
    folder.mkdir(parents=True)
    for name, part, fine in (
        ("train", images, labels),
        ("test", test_images, test_labels),
    ):
        rows = np.column_stack([fine // 5, fine, part.reshape(len(part), -1)])
        rows.astype(np.uint8).tofile(folder / f"{name}.bin")
    (folder / "fine_label_names.txt").write_text("\n".join(names(100)) + "\n")
    return folder


def _batch(images, labels, title, key):
    return python2_pickle(
        {
            "batch_label": title,
            key: labels.tolist(),
            "data": images.reshape(len(images), -1),
            "filenames": [f"image_s_{number:06d}.png" for number in range(len(images))],
        }
    )


def idx(path, array, compressed=True):
    head = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    content = head + array.astype(np.uint8).tobytes()
    if compressed:
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(content))
    else:
        path.write_bytes(content)


def fashion_mnist(folder, images, labels, part, compressed=True):
    folder.mkdir(parents=True, exist_ok=True)
    idx(folder / f"{part}-images-idx3-ubyte", images[:, 0], compressed)
    idx(folder / f"{part}-labels-idx1-ubyte", labels, compressed)


def encrypted(path):
    """Mark every member of a zip archive as encrypted."""
    content = bytearray(path.read_bytes())
    for signature, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = content.find(signature)
        while place >= 0:
            content[place + flags] |= 1
            place = content.find(signature, place + 1)
    path.write_bytes(content)
    return path


def picture(path, color=(120, 60, 30), size=(64, 64), mode="RGB"):
    """Write an image of one color."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fill = color if mode == "RGB" else color[0]
    Image.new(mode, size, fill).save(path)
    return path


def tiny_imagenet(root, wnids, per_class=2):
    """Write the official layout, the shade of an image being 20 times its class."""
    folder = root / "tiny-imagenet-200"
    lines = []
    for number, wnid in enumerate(sorted(wnids)):
        shade = (20 * number,) * 3
        for image in range(per_class):
            name = f"{wnid}_{image}.JPEG"
            picture(folder / "train" / wnid / "images" / name, shade)
        (folder / "train" / wnid / f"{wnid}_boxes.txt").write_text("")
    for image in range(2 * len(wnids)):
        wnid = wnids[image % len(wnids)]
        shade = (20 * sorted(wnids).index(wnid),) * 3
        picture(folder / "val" / "images" / f"val_{image}.JPEG", shade)
        lines.append(f"val_{image}.JPEG\t{wnid}\t0\t0\t62\t62\n")
    (folder / "val" / "val_annotations.txt").write_text("".join(lines))
    (folder / "wnids.txt").write_text("\n".join(wnids))
    return folder
