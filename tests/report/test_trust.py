"""When answers can be trusted: what is computed of stored answers, and how it reads."""

import base64
import io
import re
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some
from PIL import Image
from torch import nn
from torch.utils.data import Dataset

import tepui
from report_cases import comparison, evaluation, method, shown, text, words
from tepui.core.storage import write_document
from tepui.data import Arrays, corrupted
from tepui.evaluation.gallery import (
    FILE,
    SHARES,
    Answers,
    Gallery,
    Picture,
    answers_on,
    read_gallery,
    write_gallery,
)
from tepui.report.comparison import Comparison
from tepui.report.trust import trust_parts, trust_sentence

EVIL = "<script>alert('x')</script>"
pytestmark = pytest.mark.filterwarnings("ignore:member .* may not have learned")


def errors_naive(confidence, wrong):
    """Return the error among the surest answers, one share after the other."""
    order = sorted(range(len(wrong)), key=lambda n: -confidence[n])
    counts = [max(1, round(share * len(wrong))) for share in SHARES]
    return [sum(wrong[n] for n in order[:count]) / count for count in counts]


@given(some.integers(0, 2**32), some.integers(1, 4), some.integers(1, 30))
def test_answers_are_what_their_definition_says(seed, members, samples):
    drawn = torch.Generator().manual_seed(seed)
    logits = 4 * torch.randn(members, samples, 3, generator=drawn)
    labels = torch.randint(3, (samples,), generator=drawn)
    half = samples // 2
    runs = [(logits[:, :half], labels[:half]), (logits[:, half:], labels[half:])]
    found = asdict(answers_on("clean", [r for r in runs if len(r[1])], "probability"))
    probs = logits.double().softmax(-1)
    called, mean = probs.argmax(-1), probs.mean(0)
    agreed = [len({*column}) == 1 for column in called.T.tolist()]
    wrong = (mean.argmax(-1) != labels).tolist()

    def right(where):
        own = [not w for w, a in zip(wrong, agreed, strict=True) if a == where]
        return sum(own) / len(own) if own else None

    assert found["agreed"] == pytest.approx(sum(agreed) / samples)
    assert (found["right_agreed"], found["right_differing"]) == pytest.approx(
        (right(True), right(False))
    )
    sure = (mean.amax(-1) > 0.9).tolist()
    both = sum(w and s for w, s in zip(wrong, sure, strict=True))
    assert found["sure_wrong"] == pytest.approx(both / samples)
    alone = (probs.amax(-1) > 0.9) & (called != labels)
    assert found["member_sure_wrong"] == pytest.approx(float(alone.double().mean()))
    whole = errors_naive(mean.amax(-1).tolist(), wrong)
    assert found["errors"] == pytest.approx(whole)
    members_errors = [
        errors_naive(own.amax(-1).tolist(), (own.argmax(-1) != labels).tolist())
        for own in probs
    ]
    means = [sum(column) / members for column in zip(*members_errors, strict=True)]
    assert found["member_errors"] == pytest.approx(means)


IMAGES = Arrays(
    torch.rand(20, 1, 8, 8, generator=torch.Generator().manual_seed(1)),
    torch.arange(20) % 3,
    classes=("ant", "bee", "cow"),
)


def evaluated(folder, shifted=None, **how):
    make = lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 3, bias=False))  # noqa: E731
    ensemble = tepui.Ensemble.build(make, members=2, seed=5)
    offsets = torch.randn(2, 3, 64, generator=torch.Generator().manual_seed(0))
    for member, offset in zip(ensemble.members, offsets, strict=True):
        member[1].weight.data = 4 * offsets.mean(0) + offset
    tepui.evaluate(ensemble, IMAGES, shifted=shifted, out=folder, **how)
    write_gallery(folder, IMAGES, shifted)
    return read_gallery(folder)


def pixels(picture):
    return torch.tensor(np.array(Image.open(io.BytesIO(base64.b64decode(picture.png)))))


def test_pictures_are_damaged_samples_with_what_members_say(tmp_path):
    copies = corrupted(IMAGES, types=("contrast", "fog"), severities=(2, 5))
    found = evaluated(tmp_path, copies)
    assert [each.data for each in found.answers] == ["clean", "corrupted"]
    assert found.answers[1].samples == 4 * 20
    stored = tepui.read_logits(tmp_path)
    assert len(found.pictures) == 12
    alike = [len({*each.predictions}) == 1 for each in found.pictures]
    assert alike == sorted(alike, reverse=True)
    assert sum(alike) == 6
    assert {p.data for p in found.pictures} == {
        *("contrast/2", "contrast/5", "fog/2", "fog/5")
    }
    names = IMAGES.classes
    for each in found.pictures:
        kind, severity = each.data.split("/")
        logits, labels = stored.shifted[kind, int(severity)]
        own = logits[:, each.row]
        assert each.predictions == [names[n] for n in own.argmax(-1)]
        assert each.label == names[labels[each.row]]
        assert each.answer == names[own.softmax(-1).mean(0).argmax()]
        image = copies[kind, int(severity)].inputs[each.row, 0]
        assert (pixels(each).int() - image.int()).abs().max() <= 1
    # What is evaluated later leaves them; clean ones are shown without them.
    evaluated(tmp_path, ood={"far": IMAGES})
    assert read_gallery(tmp_path).pictures == found.pictures
    clean = evaluated(tmp_path / "clean")
    assert {each.data for each in clean.pictures} == {"clean"}
    assert read_gallery(tmp_path / "nowhere") == Gallery()


class Stretched(Dataset):
    def __len__(self):
        return 3

    def __getitem__(self, index):
        return torch.linspace(-4, 9, 3 * 100 * 100).reshape(3, 100, 100), 0


def test_images_of_unknown_scale_are_stretched_and_large_ones_made_small(tmp_path):
    def make():
        return nn.Sequential(nn.Flatten(), nn.Linear(30_000, 3))

    ensemble = tepui.Ensemble.build(make, members=2)
    tepui.evaluate(ensemble, Stretched(), out=tmp_path)
    write_gallery(tmp_path, Stretched())
    drawn = pixels(read_gallery(tmp_path).pictures[0])
    assert drawn.shape == (64, 64, 3)
    assert drawn.min() < 5
    assert drawn.max() > 250


@pytest.mark.parametrize("text", ['{"a": 1}', "3", '[{"data": null}]', "no json"])
def test_foreign_galleries_are_refused(text, tmp_path):
    (tmp_path / FILE).write_text(text)
    with pytest.raises(ValueError, match=r"gallery\.json must"):
        read_gallery(tmp_path)


def answers(data, agreed=0.75):
    curve = [0.2 * share for share in SHARES]
    known = agreed, 0.9 if agreed else None, 0.5, 0.012, 0.08
    return Answers(data, 100, *known, curve, [2 * each for each in curve])


def told(root, names=("clean", "corrupted"), png="iVBORw0KGgo=", agreed=0.75):
    """Return a comparison of one method whose galleries lie in folders."""
    shots = [
        Picture(*("fog/3", 7, EVIL, [said, EVIL], EVIL, png)) for said in (EVIL, "b")
    ]
    for n in range(2):
        found = Gallery([answers(name, agreed) for name in names], shots)
        write_document(root / f"{n}" / FILE, "gallery", asdict(found))
    own = method("A", evaluation(), evaluation())
    ensembles = (
        replace(each, folder=str(root / f"{n}")) for n, each in enumerate(own.ensembles)
    )
    return Comparison((replace(own, ensembles=tuple(ensembles)),))


def test_the_sentence_is_of_the_hardest_data(tmp_path):
    made = told(tmp_path)
    assert trust_sentence(made) == (
        "A's members agree on 75.0 % of corrupted data, and there 90.0 % of the "
        "answers are right (95 % interval 90.0 to 90.0); elsewhere 50.0 % are."
    )
    assert "of sketch data" in trust_sentence(told(tmp_path, ("clean", "sketch")))
    never = trust_sentence(told(tmp_path, ("clean",), agreed=0.0))
    assert never == "A's members agree on 0.0 % of clean data."
    assert trust_sentence(comparison()) == ""
    assert trust_parts(comparison())[-1].startswith('<p class="note">Not measured: unf')


def test_the_page_shows_the_curve_the_table_and_the_samples(tmp_path):
    page = text(shown(told(tmp_path, png=f'x" onerror="{EVIL}')))
    assert "<script" not in page
    assert 'onerror="' not in page
    seen = words(page)
    said = "A, error by share answered: 50 % 10.0, 80 % 16.0, 100 % 20.0; one member: "
    assert f'aria-label="{said}50 % 20.0, 80 % 32.0, 100 % 40.0."' in page
    assert re.search("Corrupted test data A 75.0 90.0 50.0 12.0 80.0 ", seen)
    assert "All of A's members agree" in seen
    assert page.count('alt="fog/3, sample 7, a &lt;script') == 2
    assert f"{EVIL} → b, {EVIL} right; fog 3" in seen
