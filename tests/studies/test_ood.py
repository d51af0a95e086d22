"""Comparisons with unfamiliar sets: what is kept, read back and measured again."""

import base64
import io
import json

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset

import tepui
from study_cases import compared
from tepui import metrics
from tepui.data import Digits, UniformNoise, prepared_like
from tepui.data.arrays import Arrays
from tepui.evaluation.gallery import FILE, read_gallery, write_gallery
from tepui.methods import SAM, DeepEnsemble
from tepui.models import MLP
from tepui.report.comparison import read_comparison

TEST = Digits(train=False).subset(range(40))
COLORED = UniformNoise(num_samples=30, shape=(3, 16, 16))
OOD = {"noise": UniformNoise(num_samples=25, like=TEST), "colored": COLORED}


def small(out, **changes):
    settings = {"members": 2, "ensembles": 2, "seed": 5, "epochs": 1, "ood": OOD}
    settings |= {"batch_size": 32, "progress": "none", **changes}
    train, factory = Digits().subset(range(96)), lambda: MLP(hidden=(8,))
    methods = [DeepEnsemble(), SAM(rho=0.1)]
    return compared(methods, factory, train, TEST, out=out, **settings)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("comparison") / "run"
    return small(out), out


def test_detections_of_each_ensemble_are_those_of_its_evaluation(finished):
    comparison, out = finished
    assert comparison.ood_sets == read_comparison(out).ood_sets == ("colored", "noise")
    method = comparison.methods[1]
    for trained in method.ensembles:
        ensemble = tepui.load(out / trained.folder)
        ood = {name: prepared_like(data, TEST) for name, data in OOD.items()}
        again = tepui.evaluate(ensemble, TEST, ood=ood).ood["colored"]["pds"]
        for measure, value in trained.evaluation["ood"]["colored"]["pds"].items():
            assert value == pytest.approx(getattr(again, measure))


def test_settings_tell_one_unfamiliar_set_from_another(finished, tmp_path):
    comparison, _ = finished
    about = comparison.settings["ood"]
    assert about["colored"]["samples"] == 30
    assert about["colored"]["normalize"] == about["noise"]["normalize"] is not None
    assert about["colored"]["sha256"] != about["noise"]["sha256"]
    out = tmp_path / "run"
    assert small(out, ood=None, ensembles=1).ood_sets == ()
    assert [each.data for each in read_gallery(out / "SAM/0")] == [None]
    resumed = small(out, ensembles=1, resume=True)
    assert resumed.ood_sets == ("colored", "noise")
    shown = [each.data for each in read_gallery(out / "SAM/0")]
    assert shown == [None, "noise", "colored"]
    stamp = (out / "SAM/0/evaluations/clean.json").stat().st_mtime_ns
    small(out, ensembles=1, resume=True)
    assert (out / "SAM/0/evaluations/clean.json").stat().st_mtime_ns == stamp


@pytest.mark.parametrize(
    ("ood", "message"),
    [
        (TEST, "ood must map names to data sets, got Arrays"),
        (
            {"none": torch.utils.data.Subset(TEST, [])},
            r"ood\['none'\]: dataset must hold",
        ),
        ({"far": [(torch.zeros(3, 4), 0)]}, r"ood\['far'\] must have inputs of shape"),
    ],
)
def test_bad_input_is_refused_before_anything_is_trained(ood, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        small(tmp_path / "run", ood=ood)
    assert not (tmp_path / "run").exists()


def test_galleries_show_the_extreme_samples_and_what_members_say(finished):
    comparison, out = finished
    folder = out / comparison.methods[0].ensembles[0].folder
    stored = tepui.read_logits(folder)
    galleries = read_gallery(folder)
    assert [gallery.data for gallery in galleries] == [None, "noise", "colored"]
    sets = [stored.clean[0], stored.ood["noise"], stored.ood["colored"]]
    for gallery, logits in zip(galleries, sets, strict=True):
        scores = metrics.pds(logits).tolist()
        assert [p.pds for p in gallery.lowest] == sorted(scores)[:6]
        assert [p.pds for p in gallery.highest] == sorted(scores, reverse=True)[:6]
        for picture in (*gallery.lowest, *gallery.highest):
            assert picture.pds == scores[picture.row]
            said = logits[:, picture.row].argmax(-1).tolist()
            assert picture.predictions == [*map(str, said)]
    labels = [str(int(TEST.targets[p.row])) for p in galleries[0].lowest]
    assert [p.label for p in galleries[0].lowest] == labels
    assert {p.label for p in galleries[1].lowest} == {None}


def pixels(picture):
    return np.array(Image.open(io.BytesIO(base64.b64decode(picture.png))))


def test_pictures_are_the_images(finished):
    comparison, out = finished
    clean, noise, _ = read_gallery(out / comparison.methods[0].ensembles[0].folder)
    for picture in clean.highest:
        expected = TEST.inputs[picture.row, 0] * 255
        assert np.abs(pixels(picture) - expected.numpy()).max() <= 0.51
    for picture in noise.highest:
        expected = OOD["noise"].inputs[picture.row, 0].numpy()
        assert (pixels(picture) == expected).all()


class Stretched(Dataset):
    def __len__(self):
        return 3

    def __getitem__(self, index):
        return torch.linspace(-4, 9, 3 * 100 * 100).reshape(3, 100, 100), 0


def gallery_of(folder, data):
    size = data[0][0].numel()

    def make():
        return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(size, 3))

    ensemble = tepui.Ensemble.build(make, members=2)
    tepui.evaluate(ensemble, data, ood={"far": data}, out=folder)
    write_gallery(folder, data, {"far": data})
    return read_gallery(folder)


# Of three samples an untrained member can get all wrong.
@pytest.mark.filterwarnings("ignore:member 1 may not have learned")
def test_images_of_unknown_scale_are_stretched_and_large_ones_made_small(tmp_path):
    clean, _ = gallery_of(tmp_path, Stretched())
    shown = pixels(clean.lowest[0])
    assert shown.shape == (64, 64, 3)
    assert shown.min() < 5
    assert shown.max() > 250
    assert len(clean.lowest) == len(clean.highest) == 3


def test_what_is_no_image_has_no_gallery(tmp_path):
    data = Arrays(torch.rand(4, 5), torch.arange(4) % 3)
    assert gallery_of(tmp_path, data) == ()
    assert read_gallery(tmp_path / "elsewhere") == ()


@pytest.mark.parametrize("text", ['{"a": 1}', "3", '[{"data": null}]', "no json"])
def test_foreign_galleries_are_refused(text, tmp_path):
    (tmp_path / FILE).write_text(text)
    with pytest.raises(ValueError, match=r"gallery\.json must"):
        read_gallery(tmp_path)


def test_galleries_are_plain_json(finished):
    comparison, out = finished
    text = (out / comparison.methods[0].ensembles[0].folder / FILE).read_text()
    assert json.loads(text)["galleries"][0]["lowest"][0].keys() == {
        "row",
        "pds",
        "predictions",
        "label",
        "png",
    }
