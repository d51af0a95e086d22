"""Times every corruption against the package ``imagecorruptions``, in one run.

Images are smooth noise of 32 pixels, three channels, bytes. tepui corrupts all of them
at the strength of CIFAR, and for the ratio once more at that of ImageNet, which is the
only one the package knows; the package takes them one by one, as it must, and fewer.
Times are seconds for all images and five severities.

Usage: python benchmarks/corruptions.py [--images 10000] [--device cuda] [--threads 2]
           [--reference FOLDER] [--reference-images 100] [--json FILE]

``--reference`` is the folder that holds the package and what it needs; see
``tests/data/fixtures/record_imagecorruptions.py`` for an environment that runs it. It
runs in an interpreter of its own: ``--reference-python``, by default this one.
"""

import argparse
import json
import platform
import subprocess
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F

from tepui.data import CORRUPTIONS, Arrays, corrupted

SEVERITIES = (1, 2, 3, 4, 5)
WITHOUT_JPEG = [name for name in CORRUPTIONS if name != "jpeg_compression"]

REFERENCE = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
sys.path[:0] = [sys.argv[1]] if sys.argv[1] else []
import cv2, numpy as np
from skimage import filters
from imagecorruptions import corrupt, corruptions

def gaussian(image, sigma, multichannel=False, **options):
    axis = -1 if multichannel else None
    return filters.gaussian(image, sigma, channel_axis=axis, **options)

corruptions.gaussian = gaussian
cv2.setNumThreads(int(sys.argv[4]))
images, seconds = np.load(sys.argv[2]), {}
for name in json.loads(sys.argv[3]):
    corrupt(images[0], 1, name)
    start = time.perf_counter()
    for severity in range(1, 6):
        for image in images:
            corrupt(image, severity, name)
    seconds[name] = (time.perf_counter() - start) / len(images)
print(json.dumps(seconds))
"""


def photographs(count):
    """Smooth noise: every value, slopes and edges, at the cost of none of them."""
    generator = torch.Generator().manual_seed(0)
    coarse = torch.rand(count, 3, 8, 8, generator=generator)
    images = F.interpolate(coarse, size=32, mode="bicubic").clamp_(0, 1)
    return Arrays(images.mul_(255).byte(), torch.zeros(count, dtype=torch.int64))


def seconds_of(copies, name):
    """Seconds for five severities, after a first run of one that warms up."""
    copies[name, 1]
    wait = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
    wait()
    start = time.perf_counter()
    for severity in SEVERITIES:
        copies[name, severity]
    wait()
    return time.perf_counter() - start


def timed(arrays, strength):
    copies = corrupted(arrays, types=CORRUPTIONS, strength=strength)
    return {name: seconds_of(copies, name) for name in CORRUPTIONS}


def reference(arrays, options):
    """Seconds per image for five severities, or None where the package is absent."""
    import tempfile

    import numpy as np

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "images.npy"
        few = arrays.inputs[: options.reference_images].permute(0, 2, 3, 1)
        np.save(file, few.cpu().numpy())
        words = [options.reference, file, json.dumps(CORRUPTIONS), options.threads]
        done = subprocess.run(
            [options.reference_python, "-c", REFERENCE, *map(str, words)],
            check=False,
            capture_output=True,
            text=True,
        )
    if done.returncode:
        print(f"no reference: {done.stderr.strip().splitlines()[-1]}")
        return None
    return json.loads(done.stdout.splitlines()[-1])


def table(images, own, same, theirs):
    """A table in Markdown; ratios of the package to tepui at the same strength."""
    print("| corruption | CIFAR, s | ImageNet, s | imagecorruptions, s | ratio |")
    print("|---|---:|---:|---:|---:|")
    groups = {name: [name] for name in CORRUPTIONS}
    groups |= {"all": list(CORRUPTIONS), "all but JPEG": WITHOUT_JPEG}
    for label, names in groups.items():
        mine, equal = (sum(times[name] for name in names) for times in (own, same))
        cells = [f"{mine:.2f}", f"{equal:.2f}", "", ""]
        if theirs:
            slow = images * sum(theirs[name] for name in names)
            cells[2:] = [f"{slow:.1f}", f"{slow / equal:.1f}"]
        print(f"| {label} | {' | '.join(cells)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--reference", default="")
    parser.add_argument("--reference-python", default=sys.executable)
    parser.add_argument("--reference-images", type=int, default=100)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    arrays = photographs(options.images).to(options.device)
    own, same = timed(arrays, "cifar"), timed(arrays, "imagenet")
    theirs = reference(arrays, options)
    gpu = options.device.startswith("cuda")
    where = torch.cuda.get_device_name() if gpu else platform.machine()
    print(f"{options.images} images on {where}, {options.threads} threads, ", end="")
    print(f"torch {torch.__version__}\n")
    table(options.images, own, same, theirs)
    if options.json:
        record = {
            "images": options.images,
            "device": where,
            "threads": options.threads,
            "torch": torch.__version__,
            "cifar_seconds": own,
            "imagenet_seconds": same,
            "imagecorruptions_seconds_per_image": theirs,
        }
        options.json.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
