import json
import shutil
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import nn
from torch.utils.data import Dataset

import tepui
from study_cases import compared, read_comparison, score
from tepui.core.seeding import member_seeds
from tepui.data import Arrays, Digits, UniformNoise, corrupt, corrupted
from tepui.data.corruptions import copies
from tepui.evaluation import read_evaluation
from tepui.methods import SAM, SED, DeepEnsemble
from tepui.models import MLP
from tepui.sharpness import worst_case
from tepui.studies import compare, extracted
from tepui.studies.comparison_plan import labels

METHODS = [DeepEnsemble(), SAM(rho=0.1)]


def small(out, **changes):
    train = changes.pop("train", Digits().subset(range(96)))
    test = Digits(train=False).subset(range(40))
    settings = {
        "shifted": corrupted(test, types=("contrast",), severities=(1, 5)),
        "members": 2,
        "ensembles": 2,
        "seed": 5,
        "epochs": 1,
        "batch_size": 32,
        "progress": "none",
        "title": "small",
        "equal": None,
        **changes,
    }
    methods = settings.pop("methods", METHODS)
    factory = settings.pop("factory", lambda: MLP(hidden=(8,)))
    return compared(methods, factory, train, test, out=out, **settings)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("comparison") / "run"
    return small(out), out


def test_every_ensemble_has_its_folder_and_scores(finished):
    comparison, out = finished
    assert [method.label for method in comparison.methods] == ["DeepEnsemble", "SAM"]
    for method in comparison.methods:
        assert len(method.ensembles) == 2
        for trained in method.ensembles:
            loaded = tepui.load(out / trained.folder)
            test = Digits(train=False).subset(range(40))
            clean = tepui.evaluate(loaded, test).clean
            assert trained.evaluation["clean"] == clean.document()


def test_methods_share_seeds_and_ensembles_do_not(finished):
    comparison, _ = finished
    first, second = ([t.seeds for t in m.ensembles] for m in comparison.methods)
    assert first == second
    assert first[0] + first[1] == member_seeds(5, 4)


def test_scores_are_means_over_ensembles(finished):
    comparison, _ = finished
    method = comparison.methods[1]
    values = [t.evaluation["shifted"]["accuracy"] for t in method.ensembles]
    found = score(method, "shifted", "accuracy")
    assert found.mean == pytest.approx(sum(values) / 2)
    assert found.error == pytest.approx(abs(values[0] - values[1]) / 2)


def test_what_to_know_of_a_method_is_told_once_before_its_runs(tmp_path, capsys):
    told = []
    methods = [DeepEnsemble(), SED(active=2)]
    small(
        tmp_path / "run",
        methods=methods,
        members=3,
        announce=told.append,
        progress="lines",
    )
    assert told[0] == f"SED: {SED(active=2).remark(3)}"
    assert [line.split(",")[0] for line in told[1:]] == [
        *["DeepEnsemble"] * 2,
        *["SED"] * 2,
    ]
    assert "each step trains" not in capsys.readouterr().err
    again = []
    small(
        tmp_path / "run",
        methods=methods,
        members=3,
        announce=again.append,
        progress="none",
        resume=True,
    )
    assert again == [told[0], "4 of 4 ensembles are trained and tested already"]


def test_all_ensembles_share_one_copy_of_each_cell(tmp_path, monkeypatch):
    made = []

    def counting(images, name, severity, **options):
        made.append((name, severity))
        return corrupt(images, name, severity, **options)

    monkeypatch.setattr(copies, "corrupt", counting)
    comparison = small(tmp_path, epochs=1)
    assert sum(len(method.ensembles) for method in comparison.methods) > 1
    assert made == [("contrast", 1), ("contrast", 5)]


def test_what_was_written_is_read_back(finished):
    comparison, out = finished
    again = read_comparison(out)
    assert again.title == comparison.title
    assert score(again.methods[0], "clean", "nll") == score(
        comparison.methods[0], "clean", "nll"
    )


def test_resuming_trains_only_what_is_missing(finished, tmp_path):
    comparison, _ = finished
    small(tmp_path / "run", methods=METHODS[:1])
    before = (tmp_path / "run/DeepEnsemble/0/ensemble.safetensors").stat().st_mtime_ns
    resumed = small(tmp_path / "run", resume=True)
    after = (tmp_path / "run/DeepEnsemble/0/ensemble.safetensors").stat().st_mtime_ns
    assert before == after
    for one, other in zip(resumed.methods, comparison.methods, strict=True):
        assert [t.evaluation for t in one.ensembles] == [
            t.evaluation for t in other.ensembles
        ]


def test_a_folder_with_something_in_it_is_not_touched(finished):
    _, out = finished
    before = (out / "results.json").read_bytes()
    with pytest.raises(FileExistsError, match=r"is not empty; pass resume=True"):
        small(out)
    assert (out / "results.json").read_bytes() == before


def test_resuming_with_another_setting_names_it(finished):
    _, out = finished
    with pytest.raises(ValueError, match=r"batch_size must be .*\(32\).* got 16"):
        small(out, resume=True, batch_size=16)


def test_resuming_with_another_model_or_other_data_is_refused(finished):
    _, out = finished
    with pytest.raises(ValueError, match="models must be what the run"):
        small(out, resume=True, factory=lambda: MLP(hidden=(9,)))
    with pytest.raises(ValueError, match="data must be what the run"):
        small(out, resume=True, train=Digits().subset(range(1, 97)))


def test_another_test_replaces_the_evaluation_alone(finished, tmp_path):
    _, out = finished
    shutil.copytree(out, tmp_path / "run")
    weights = tmp_path / "run/SAM/0/ensemble.safetensors"
    before = weights.stat().st_mtime_ns
    resumed = small(tmp_path / "run", shifted=None, resume=True)
    assert not resumed.has_shift
    assert weights.stat().st_mtime_ns == before
    document = read_evaluation(tmp_path / "run/SAM/0")
    assert document["cells"] == document["about"]["cells"] == []


def test_a_gallery_that_a_kill_prevented_is_written_on_resuming(finished, tmp_path):
    _, out = finished
    shutil.copytree(out, tmp_path / "run")
    gallery = tmp_path / "run/SAM/1/gallery.json"
    before = gallery.read_bytes()
    gallery.unlink()
    small(tmp_path / "run", resume=True)
    assert gallery.read_bytes() == before


def test_every_job_has_the_threads_of_the_caller(tmp_path):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        comparison = small(tmp_path, shifted=None, ensembles=1, methods=METHODS[:1])
    finally:
        torch.set_num_threads(before)
    run = json.loads((tmp_path / "DeepEnsemble/0/run.json").read_text())
    assert run["config"]["threads"] == comparison.settings["threads"] == 2


def test_options_of_fit_reach_every_run(tmp_path):
    epochs = []
    small(
        tmp_path,
        shifted=None,
        ensembles=1,
        epochs=2,
        validation=0.25,
        keep="best",
        deterministic=True,
        callbacks=[lambda record: epochs.append(record.epoch)],
    )
    assert epochs == [0, 1] * len(METHODS)
    config = json.loads((tmp_path / "SAM/0/run.json").read_text())["config"]
    assert config["validation"]["samples"] == 24
    assert (config["keep"], config["deterministic"]) == ("best", True)
    with pytest.raises(TypeError, match="unheard_of"):
        small(tmp_path / "none", unheard_of=3)


class Counting(nn.Module):
    """Takes the first pixels as features, and counts samples in real batches."""

    def __init__(self):
        super().__init__()
        self.samples = 0

    def forward(self, images):
        self.samples += len(images) if len(images) > 2 else 0
        return images.flatten(1)[:, 8:40]


def test_every_data_set_goes_through_the_extractor_once(tmp_path):
    test = Digits(train=False).subset(range(40))
    shifted = corrupted(test, types=("contrast", "brightness"), severities=(1, 5))
    ood = {"noise": UniformNoise(num_samples=30, like=test)}
    extractor = Counting()
    options = {"factory": lambda: nn.Linear(32, 10), "extractor": extractor}
    found = small(tmp_path, shifted=shifted, ood=ood, **options)
    assert extractor.samples == 96 + 40 + 4 * 40 + 30
    small(tmp_path, shifted=shifted, ood=ood, resume=True, **options)
    assert extractor.samples == 96 + 40 + 4 * 40 + 30
    for trained in found.methods[1].ensembles:
        heads = tepui.load(tmp_path / trained.folder, factory=lambda: nn.Linear(32, 10))
        whole = tepui.Ensemble(heads.members, heads.seeds, Counting().eval())
        direct = tepui.evaluate(whole, test, shifted=shifted, ood=ood).document()
        for name, value in direct.items():
            assert trained.evaluation[name] == value, name


@pytest.mark.parametrize("room", [2**29, 0])
def test_copies_are_made_once_wherever_their_features_lie(room, tmp_path, monkeypatch):
    made = []
    one = copies.Corrupted._made
    monkeypatch.setattr(
        copies.Corrupted,
        "_made",
        lambda self, *cell: made.append(cell) or one(self, *cell),
    )
    monkeypatch.setattr(extracted, "KEPT_BYTES", room)
    test = Digits(train=False).subset(range(40))
    upside_down = test.like(test.inputs.flip(-2), test.targets)
    shifted = corrupted(test, types=("contrast",), severities=(1, 5))
    extractor = Counting()
    options = {"factory": lambda: nn.Linear(32, 10), "extractor": extractor}
    found = small(tmp_path, shifted=shifted | {"turned": upside_down}, **options)
    # once for features, and once for pictures of the first ensemble's answers
    assert made == [("contrast", 1), ("contrast", 5)] * 2
    assert extractor.samples == 96 + 40 + 2 * 40 + 40
    assert found.natural_shifts == ("turned",)
    trained = found.methods[1].ensembles[1]
    heads = tepui.load(tmp_path / trained.folder, factory=lambda: nn.Linear(32, 10))
    whole = tepui.Ensemble(heads.members, heads.seeds, Counting().eval())
    direct = tepui.evaluate(whole, test, shifted=shifted | {"turned": upside_down})
    assert trained.evaluation["cells"] == direct.document()["cells"]
    accuracy = direct.natural["turned"].accuracy
    rows = [t.evaluation["cells"][-1]["accuracy"] for t in found.methods[1].ensembles]
    assert rows[1] == accuracy
    mean = score(found.methods[1], "turned", "accuracy").mean
    assert mean == pytest.approx(sum(rows) / 2)


class Subset(Dataset):
    """Digits of which only the even ones are held."""

    class_subset = torch.arange(10) % 2 == 0

    def __init__(self):
        digits = Digits(train=False)
        self.images = digits.subset((digits.targets % 2 == 0).nonzero().flatten())

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.images[index]


def test_heads_choose_between_the_classes_that_the_raw_data_hold(tmp_path):
    train, factory = Digits().subset(range(96)), lambda: nn.Linear(32, 10)
    options = {"members": 2, "epochs": 1, "progress": "none", "extractor": Counting()}
    options["ensembles"] = 1
    found = compared(METHODS[:1], factory, train, Subset(), out=tmp_path, **options)
    assert found.methods[0].ensembles[0].evaluation["classes"] == 5


@pytest.mark.parametrize("methods", [DeepEnsemble(), [DeepEnsemble], [], "SAM"])
def test_methods_are_a_list_of_them(tmp_path, methods):
    rule = r"methods must be a list of methods, such as \[DeepEnsemble\(\), SAM\(\)\]"
    with pytest.raises(ValueError, match=rule):
        compare(methods, MLP, None, None, out=tmp_path / "x", epochs=1)
    assert not (tmp_path / "x").exists()


def test_labels_show_hyperparameters_where_names_repeat():
    assert labels([SAM(rho=0.1), DeepEnsemble(), SAM(rho=0.2)]) == [
        "SAM(rho=0.1)",
        "DeepEnsemble",
        "SAM(rho=0.2)",
    ]
    with pytest.raises(ValueError, match="methods must differ from each other"):
        labels([SAM(), SAM()])


def test_bad_arguments_are_named(tmp_path):
    for changes, message in [
        ({"methods": []}, "methods must be a list of methods"),
        ({"members": 0}, "members must be positive, got 0"),
        ({"ensembles": 0}, "ensembles must be positive, got 0"),
        ({"seed": [1, 2, 3]}, r"seed must name one seed per member \(4\)"),
    ]:
        with pytest.raises(ValueError, match=message):
            small(tmp_path / "none", **changes)
    assert not (tmp_path / "none").exists()


def test_reading_nothing_or_something_foreign_says_what_to_do(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"results\.json"):
        read_comparison(tmp_path)
    (tmp_path / "results.json").write_text('{"format": 99}')
    with pytest.raises(
        ValueError, match=r"results.json must be of format 2.*got format 99"
    ):
        read_comparison(tmp_path)
    (tmp_path / "results.json").write_text("not json")
    with pytest.raises(ValueError, match="must be a JSON document"):
        read_comparison(tmp_path)


def test_global_random_state_is_left_alone(tmp_path):
    before = torch.random.get_rng_state()
    small(tmp_path / "run", ensembles=1, shifted=None)
    assert torch.equal(before, torch.random.get_rng_state())


def test_sharpness_is_measured_on_training_data_and_kept(tmp_path, monkeypatch):
    options = {"num_samples": 10, "num_steps": 3}
    found = small(tmp_path, sharpness=options, ensembles=1)
    assert found.has_sharpness
    for method in found.methods:
        (trained,) = method.ensembles
        members = tepui.load(tmp_path / trained.folder)
        train = Digits().subset(range(96))
        again = tepui.measure(members, train, partial(worst_case, **options))
        assert trained.sharpness["mean"] == again["worst_case"].mean

    def never(*arguments, **keywords):
        raise AssertionError("measured twice")

    monkeypatch.setattr("tepui.studies.store.measure", never)
    monkeypatch.setattr("tepui.studies.store.evaluate", never)
    resumed = small(tmp_path, sharpness=options, ensembles=1, resume=True)
    assert resumed == found == read_comparison(tmp_path)


def mean_margin(logits, labels):
    first, second = logits.softmax(-1).mean(0).topk(2).values.T
    return (first - second).mean()


def test_own_metrics_are_scores(tmp_path):
    own = {"mean_margin": mean_margin}
    comparison = small(tmp_path / "run", metrics=own, ensembles=1)
    assert comparison.custom_metrics == ("mean_margin",)
    for method in comparison.methods:
        stored = tepui.read_logits(tmp_path / "run" / method.ensembles[0].folder)
        expected = mean_margin(*stored.clean).item()
        assert score(method, "clean", "mean_margin").mean == pytest.approx(expected)
        cells = [mean_margin(*cell).item() for cell in stored.shifted.values()]
        shifted = score(method, "shifted", "mean_margin").mean
        assert shifted == pytest.approx(sum(cells) / len(cells))
    assert read_comparison(tmp_path / "run").custom_metrics == ("mean_margin",)


def test_a_resumed_comparison_takes_changed_metrics_anew(tmp_path):
    def twice(logits, labels):
        return 2 * mean_margin(logits, labels)

    only = {"ensembles": 1, "methods": METHODS[:1]}
    first = small(tmp_path / "run", metrics={"m": mean_margin}, **only)
    whole = small(tmp_path / "other", metrics={"m": twice}, **only)

    again = small(tmp_path / "run", metrics={"m": twice}, resume=True, **only)
    (before,), (after,), (fresh,) = (
        each.methods[0].ensembles for each in (first, again, whole)
    )
    assert after.evaluation == fresh.evaluation
    assert after.evaluation["clean"]["m"] == 2 * before.evaluation["clean"]["m"]
    assert read_comparison(tmp_path / "run").methods[0] == again.methods[0]


def test_metrics_are_checked_before_anything_is_trained(tmp_path):
    with pytest.raises(ValueError, match="metrics must have other names"):
        small(tmp_path / "run", metrics={"nll": mean_margin})
    assert not (tmp_path / "run").exists()


def every_logit(logits, labels):
    return logits


TEST = Digits(train=False).subset(range(40))


def relabeled(labels):
    return Arrays(TEST.inputs, labels)


SOFT = relabeled(torch.full((40, 10), 0.1))
HIGH = relabeled(TEST.targets + 1)
ONE_HOT = relabeled(nn.functional.one_hot(TEST.targets, 10))
OTHERS = replace(TEST, classes=tuple("abcdefghij"))
WIDE = Arrays(torch.zeros(40, 65), TEST.targets)


@pytest.mark.parametrize(
    ("shifted", "said"),
    [
        ({"far": SOFT}, r"^labels of shifted\['far'\] must be integers, got torch.flo"),
        ({("fog", 1): SOFT}, r"^labels of shifted\['fog', 1\] must be integers"),
        ({"far": [*SOFT]}, r"^labels of shifted\['far'\] must be integers"),
        ({"far": HIGH}, r"^labels of shifted\['far'\] must lie in \[0, 9\] for 10 out"),
        ({"far": ONE_HOT}, r"^shifted\['far'\]: labels must be integers of shape"),
        ({"far": OTHERS}, r"^shifted\['far'\] must have the classes of the training"),
        ({"far": every_logit}, r"^shifted\['far'\] must be map-style"),
        ({"far": WIDE}, r"^shifted\['far'\]: model must accept samples of shape \(65,"),
        ({("fog", 1): WIDE}, r"^shifted\['fog', 1\]: model must accept samples of sha"),
    ],
)
def test_shifted_data_are_checked_before_anything_is_trained(tmp_path, shifted, said):
    with pytest.raises(ValueError, match=said):
        small(tmp_path / "run", shifted=shifted)
    assert not (tmp_path / "run").exists()


def test_test_data_that_members_cannot_take_are_refused_first(tmp_path):
    options = {"members": 2, "epochs": 1, "progress": "none", "out": tmp_path / "run"}
    with pytest.raises(ValueError, match=r"^test: model must accept .* \(65,\)"):
        compare(METHODS, lambda: MLP(hidden=(8,)), TEST, WIDE, **options)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("test", [SOFT, [*SOFT]])
def test_who_learns_from_probabilities_is_tested_by_classes(tmp_path, test):
    settings = {"members": 2, "epochs": 1, "progress": "none", "out": tmp_path / "run"}
    with pytest.raises(ValueError, match=r"^labels of test must be integers, got tor"):
        compare(METHODS, lambda: MLP(hidden=(8,)), SOFT, test, **settings)
    assert not (tmp_path / "run").exists()
