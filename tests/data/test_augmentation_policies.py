"""Policies against Pillow's operations, sample by sample, and what they draw."""

import hashlib
import json
import math

import numpy as np
import pytest
import torch
from PIL import Image

import tepui
from data.test_image_operations import from_pillow, pictures, pillow, to_pillow
from tepui.core.names import PLACES
from tepui.data import (
    CORRUPTIONS,
    AugMix,
    AutoAugment,
    ColorJitter,
    GaussianBlur,
    HorizontalFlip,
    RandAugment,
    RandomCrop,
    RandomErasing,
    RandomGrayscale,
    RandomResizedCrop,
    TrivialAugment,
)
from tepui.data import augmentation_policies as policies
from tepui.data.augment import augment
from tepui.data.corruptions.apply import PARAMETERS
from tepui.data.corruptions.pixels import disk_kernel
from tepui.data.image_operations import OPERATIONS

POLICIES = [
    TrivialAugment(),
    RandAugment(),
    RandAugment(operations=3, level=30),
    AutoAugment(),
    AugMix(),
    AugMix(severity=10, width=2, depth=4),
]
OTHERS = [RandomErasing(), ColorJitter(hue=0.2), RandomGrayscale(0.5), GaussianBlur()]
MOVING = [RandomCrop(2), HorizontalFlip(), RandomResizedCrop()]
EVERY = POLICIES + OTHERS + MOVING
OF_14 = OPERATIONS[:-1]

# Largest magnitudes and whether they have a direction, from the papers' releases.
WIDE = {"shear": 0.99, "translate": 32, "rotate": 135, "enhance": 0.99, "bits": 6}
NARROW = {"shear": 0.3, "rotate": 30, "enhance": 0.9, "bits": 4}


def kind_of(name):
    if name in ("brightness", "color", "contrast", "sharpness"):
        return "enhance"
    return name.split("_")[0]


def magnitude_naive(name, level, levels, sign, space, size):
    """Return the magnitude of a level as torchvision's spaces have it."""
    kind, (height, width) = kind_of(name), size
    if kind == "posterize":
        return 8 - round(level / ((levels - 1) / space["bits"]))
    if kind == "solarize":
        return float(np.linspace(255, 0, levels)[level])
    if kind not in ("shear", "translate", "rotate", "enhance"):
        return 0.0
    side = 150 / 331 * (width if name.endswith("x") else height)
    value = float(np.linspace(0, space.get(kind, side), levels)[level]) * sign
    if kind == "translate":
        return int(value)
    return 1 + value if kind == "enhance" else value


def place(number, count):
    return math.floor(float(number) * count)


def sign_of(number):
    return 1 if number < 0.5 else -1


def trivial_naive(image, u):
    name, level = OF_14[place(u[0], 14)], place(u[1], 31)
    size = image.size[::-1]
    amount = magnitude_naive(name, level, 31, sign_of(u[2]), WIDE, size)
    return pillow(image, name, amount)


def rand_naive(image, u, level):
    for pick, way in u.view(-1, 2):
        name, size = OF_14[place(pick, 14)], image.size[::-1]
        amount = magnitude_naive(name, level, 31, sign_of(way), NARROW, size)
        image = pillow(image, name, amount)
    return image


# The 25 pairs of the paper's table for CIFAR-10: operation, probability, level.
PAIRS = [
    [(name, float(chance), int(level)) for name, chance, level in map(str.split, pair)]
    for line in policies.CIFAR_POLICY.strip().splitlines()
    for pair in [part.split(",") for part in line.split(";")]
]


def test_the_pairs_are_those_of_the_papers_table():
    assert len(PAIRS) == 25
    known = hashlib.sha256(json.dumps(PAIRS).encode()).hexdigest()
    assert known.startswith("88e77ce64cea3a1e")


def auto_naive(image, u):
    for (name, chance, level), (happens, way) in zip(
        PAIRS[place(u[0], 25)], u[1:].view(2, 2), strict=True
    ):
        if happens < chance:
            size, sign = image.size[::-1], sign_of(way)
            amount = magnitude_naive(name, level, 10, sign, NARROW, size)
            image = pillow(image, name, amount)
    return image


# The released order of operations; magnitudes are parts of these at level 10.
MIXED = (
    *("autocontrast", "equalize", "posterize", "rotate", "solarize"),
    *("shear_x", "shear_y", "translate_x", "translate_y"),
)


def mixed_operation_naive(image, u, severity):
    """Apply one of the released operations with the released formulas of levels."""
    name, level = MIXED[place(u[0], 9)], 0.1 + (severity - 0.1) * float(u[1])
    sign = -1 if u[2] < 0.5 else 1
    width, height = image.size
    amount = {
        "posterize": 4 - int(level * 4 / 10),
        "solarize": 256 - int(level * 256 / 10),
        "rotate": sign * int(level * 30 / 10),
        "shear_x": sign * level * 0.3 / 10,
        "shear_y": sign * level * 0.3 / 10,
        "translate_x": sign * int(level * (width / 3) / 10),
        "translate_y": sign * int(level * (height / 3) / 10),
    }.get(name, 0)
    return pillow(image, name, amount, Image.Resampling.BILINEAR)


def augmix_naive(image, u, policy):
    chains = u[1:].view(policy.width, 2 + 3 * policy.depth)
    exponential = [-math.log(1 - float(v)) for v in chains[:, 0]]
    share, mean = float(u[0]), np.zeros(np.atleast_3d(np.array(image)).shape)
    for chain, weight in zip(chains, exponential, strict=True):
        changed = image
        for turn in chain[2:].view(-1, 3)[: 1 + place(chain[1], policy.depth)]:
            changed = mixed_operation_naive(changed, turn, policy.severity)
        part = weight / sum(exponential)
        mean += part * np.atleast_3d(np.array(changed)).astype(float)
    original = np.atleast_3d(np.array(image)).astype(float)
    mixed = (1 - share) * original + share * mean
    return torch.from_numpy(mixed).permute(2, 0, 1)


def uniform(samples, columns, seed=0):
    stream = torch.Generator().manual_seed(seed)
    return torch.rand(samples, columns, generator=stream)


def batch(samples=180, channels=3, height=32, width=32):
    images = pictures(channels, height, width)
    return images.repeat(-(-samples // len(images)), 1, 1, 1)[:samples]


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 20)], ids=str)
@pytest.mark.parametrize("policy", POLICIES[:4], ids=str)
def test_policy_applies_pillows_operations(policy, shape):
    images = batch(240, *shape)
    draws = uniform(len(images), policy.draws)
    found = policy(images, draws)
    naive = {
        TrivialAugment: trivial_naive,
        RandAugment: lambda image, u: rand_naive(image, u, policy.level),
        AutoAugment: auto_naive,
    }[type(policy)]
    expected = torch.stack(
        [
            from_pillow(naive(to_pillow(image), u))
            for image, u in zip(images, draws, strict=True)
        ]
    )
    difference = (found.int() - expected.int()).abs()
    # Magnitudes are float32 here: a blend may be cut off on the other side of a number.
    assert difference.max() <= 1
    assert (difference > 0).float().mean() < 1e-3


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 20)], ids=str)
@pytest.mark.parametrize("policy", POLICIES[4:], ids=str)
def test_augmix_mixes_pillows_operations(policy, shape):
    images = batch(60, *shape)
    draws = uniform(len(images), policy.draws, seed=1)
    found = policy(images, draws)
    expected = torch.stack(
        [
            augmix_naive(to_pillow(image), u, policy)
            for image, u in zip(images, draws, strict=True)
        ]
    )
    assert (found.dtype, found.shape) == (torch.uint8, images.shape)
    difference = (found.double() - expected).abs()
    assert difference.max() <= 1.51
    assert (difference > 0.501).double().mean() < 1e-3


def test_augmix_weights_are_uniform_on_the_simplex(monkeypatch):
    """Of three weights each is of beta(1, 2), of mean 1/3 and variance 1/18."""

    def operated(images, operation, magnitude, **how):
        rows = torch.arange(len(images)) % 3
        return (rows[:, None, None, None] == 0).expand_as(images).to(torch.uint8) * 255

    monkeypatch.setattr(policies, "operated", operated)
    images = torch.zeros(20_000, 1, 1, 1, dtype=torch.uint8)
    draws = uniform(20_000, AugMix().draws)
    draws[:, 0] = 1 - 2**-24  # nothing but the mean of the chains
    first = AugMix()(images, draws).double().flatten() / 255
    assert first.mean().item() == pytest.approx(1 / 3, abs=0.01)
    assert first.var().item() == pytest.approx(1 / 18, abs=0.002)


def test_extreme_numbers_give_images():
    for policy in EVERY:
        for number in (0.0, 1 - 2**-24):
            draws = torch.full((6, policy.draws), number)
            found = policy(pictures(), draws)
            assert (found.dtype, found.shape) == (torch.uint8, (6, 3, 32, 32))
    same = torch.full((6, AugMix().draws), 0.0)
    assert torch.equal(AugMix()(pictures(), same), pictures())  # a share of nothing


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("policy", EVERY, ids=str)
def test_a_sample_does_not_depend_on_its_batch(policy, channels):
    images = batch(30, channels, 12, 15)
    draws = uniform(30, policy.draws, seed=3)
    together = policy(images, draws)
    assert (together.dtype, together.shape) == (torch.uint8, images.shape)
    assert torch.equal(together, policy(images, draws))
    order = torch.randperm(30, generator=torch.Generator().manual_seed(0))
    assert torch.equal(policy(images[order], draws[order]), together[order])
    for row in range(0, 30, 7):
        own = slice(row, row + 1)
        assert torch.equal(policy(images[own], draws[own]), together[own])


@pytest.mark.parametrize("policy", EVERY, ids=str)
def test_no_step_looks_at_values_and_nothing_is_drawn(policy):
    before = torch.get_rng_state()
    images = torch.zeros(4, 3, 8, 9, dtype=torch.uint8, device="meta")
    found = policy(images, torch.zeros(4, policy.draws, device="meta"))
    assert (found.shape, found.dtype) == (images.shape, torch.uint8)
    policy(pictures(), torch.rand(6, policy.draws, generator=torch.Generator()))
    assert torch.equal(torch.get_rng_state(), before)


def all_at_once(monkeypatch):
    """Let the CPU compute all samples, as other devices do."""

    def applied(chosen, step, images, *others):
        return torch.where(chosen[:, None, None, None], step(images, *others), images)

    monkeypatch.setattr("tepui.data.image_operations.applied", applied)
    monkeypatch.setattr("tepui.data.augmentation_policies.applied", applied)


@pytest.mark.parametrize("policy", EVERY, ids=str)
def test_computing_all_samples_gives_the_same(policy, monkeypatch):
    images, draws = batch(60), uniform(60, policy.draws, seed=5)
    chosen = policy(images, draws)
    all_at_once(monkeypatch)
    assert torch.equal(policy(images, draws), chosen)


def test_policies_follow_each_other_and_the_older_ones():
    steps = [TrivialAugment(), RandomCrop(), HorizontalFlip(), AugMix(), OTHERS[0]]
    draws = uniform(12, sum(step.draws for step in steps))
    found = expected = batch(12)
    for step, own in zip(
        steps, draws.split([step.draws for step in steps], 1), strict=True
    ):
        expected = step(expected, own)
    assert torch.equal(augment(found, steps, draws), expected)


COLORED = {"brightness", "contrast", "saturate"}
CORRUPTING = {
    "AutoAugment": COLORED,
    "ColorJitter": COLORED,
    "GaussianBlur": {"gaussian_blur", "defocus_blur"},
    "RandAugment": COLORED,
    "RandomGrayscale": {"saturate"},
    "TrivialAugment": COLORED,
}


@pytest.mark.parametrize("name", sorted(PLACES["augmentation"].keys() - {"PerMember"}))
def test_an_augmentation_names_the_corruptions_among_its_operations(name):
    found = getattr(tepui.data, name)().corruptions
    assert found == CORRUPTING.get(name, frozenset())
    assert found <= set(CORRUPTIONS)


def test_what_a_jitter_leaves_alone_is_no_corruption():
    assert ColorJitter(0.4, 0, 0, hue=0.1).corruptions == {"brightness"}
    assert ColorJitter(0, 0.4, 0.4).corruptions == {"contrast", "saturate"}


def test_defocus_of_small_images_is_a_gaussian_blur():
    for disk in PARAMETERS["cifar"]["defocus_blur"][:3]:
        kernel = disk_kernel(*disk)
        offset = torch.arange(len(kernel)) - len(kernel) // 2
        gaps = []
        for sigma in torch.linspace(*GaussianBlur().sigma, 200):
            line = (-((offset / sigma) ** 2) / 2).softmax(0)
            gaps.append((kernel - line.outer(line)).norm() / kernel.norm())
        assert min(gaps) < 0.02


BYTES = [*POLICIES, *OTHERS[1:3]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("policy", BYTES, ids=str)
def test_floats_are_rounded_to_bytes_and_back(policy, dtype):
    images, draws = batch(24), uniform(24, policy.draws)
    noise = uniform(24, 3 * 32 * 32).view(images.shape) - 0.5
    floats = ((images.to(dtype) + 0.99 * noise) / 255).clamp(0, 1)
    found = policy(floats, draws)
    assert found.dtype == dtype
    assert torch.equal(found, (policy(images, draws).float() / 255).to(dtype))


@pytest.mark.parametrize("policy", BYTES, ids=str)
def test_images_without_bytes_are_refused(policy):
    draws = torch.rand(2, policy.draws)
    images = torch.zeros(2, 3, 8, 8)
    for wrong in (-0.01, 1.01):
        images[0, 0, 0, 0] = wrong
        with pytest.raises(ValueError, match=r"images must lie in \[0, 1\] to be"):
            policy(images, draws)
    with pytest.raises(ValueError, match=r"images must be bytes .* got torch.int64"):
        policy(images.long(), draws)
    for kind in (torch.uint8, torch.float32):
        images = torch.zeros(2, 2, 8, 8, dtype=kind)
        with pytest.raises(ValueError, match="images must have 1 or 3 channels, got 2"):
            policy(images, draws)


@pytest.mark.parametrize("policy", EVERY, ids=str)
def test_shapes_are_checked(policy):
    images = torch.zeros(2, 3, 8, 8, dtype=torch.uint8)
    with pytest.raises(ValueError, match="uniform must have shape"):
        policy(images, torch.rand(2, policy.draws + 1))
    with pytest.raises(ValueError, match="images must have shape"):
        policy(images[0], torch.rand(3, policy.draws))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: RandomCrop(padding=0), r"padding must lie in \[1, inf\], got 0"),
        (lambda: RandomCrop(fill=128), r"fill must lie in \[0, 1\], got 128"),
        (lambda: HorizontalFlip(1.5), r"probability must lie in \[0.0, 1.0\], got 1.5"),
        (lambda: RandomResizedCrop(size=0), "size must be positive, got 0"),
        (lambda: RandomResizedCrop(scale=(0.0, 0.1)), "scale must be increasing"),
        (lambda: RandomResizedCrop(ratio=(2.0, 1.0)), "ratio must be positive and i"),
        (lambda: RandAugment(operations=0), "operations must lie in .*, got 0"),
        (lambda: RandAugment(level=31), r"level must lie in \[0, 30\], got 31"),
        (lambda: RandAugment(level=-1), r"level must lie in \[0, 30\], got -1"),
        (lambda: RandAugment(level=2.5), "level must be an integer, got 2.5"),
        (lambda: AugMix(severity=0.0), r"severity must lie in \[0.1, 10\], got 0.0"),
        (lambda: AugMix(severity=11), r"severity must lie in \[0.1, 10\], got 11"),
        (lambda: AugMix(width=0), "width must lie in .*, got 0"),
        (lambda: AugMix(depth=0), "depth must lie in .*, got 0"),
        (lambda: RandomErasing(1.5), r"probability must lie in \[0.0, 1.0\], got 1.5"),
        (lambda: RandomErasing(scale=(0.5, 0.1)), "scale must be increasing within"),
        (lambda: RandomErasing(ratio=(0.0, 1.0)), "ratio must be positive and incr"),
        (lambda: RandomErasing(fill=255), r"fill must lie in \[0, 1\], got 255"),
        (lambda: ColorJitter(brightness=-0.1), "brightness must lie in"),
        (lambda: ColorJitter(hue=0.6), r"hue must lie in \[0, 0.5\], got 0.6"),
        (lambda: RandomGrayscale(-1), r"probability must lie in \[0.0, 1.0\], got -1"),
        (lambda: GaussianBlur(sigma=(0.0, 1.0)), "sigma must be positive and incr"),
        (lambda: GaussianBlur(probability=2), r"probability must lie in \[0.0, 1.0\]"),
    ],
)
def test_bad_settings_are_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("policy", POLICIES + OTHERS, ids=str)
def test_a_captured_graph_gives_the_images_of_the_cpu(policy):
    images, draws = batch(120), uniform(120, policy.draws)
    pixels, numbers = images.cuda(), torch.zeros_like(draws).cuda()
    policy(pixels, numbers)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = policy(pixels, numbers)
    numbers.copy_(draws)
    graph.replay()
    difference = (found.cpu().int() - policy(images, draws).int()).abs()
    assert (difference > 0).float().mean() < 1e-3
