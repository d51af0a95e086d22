import json
import sys
from functools import partial

import pytest
import torch

import tepui
from tepui.core.seeding import member_seeds
from tepui.data import Digits, corrupted
from tepui.methods import SAM, DeepEnsemble
from tepui.models import MLP
from tepui.sharpness import worst_case
from tepui.studies import compare, read_comparison
from tepui.studies.compare import labels

METHODS = [DeepEnsemble(), SAM(rho=0.1)]


def small(out, **changes):
    train = Digits().subset(range(96))
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
        **changes,
    }
    methods = settings.pop("methods", METHODS)
    return compare(methods, lambda: MLP(hidden=(8,)), train, test, out=out, **settings)


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
    found = method.score("shifted", "accuracy")
    assert found.mean == pytest.approx(sum(values) / 2)
    assert found.error == pytest.approx(abs(values[0] - values[1]) / 2)
    level = [t.evaluation["severities"]["5"]["nll"] for t in method.ensembles]
    assert method.severity("5", "nll").mean == pytest.approx(sum(level) / 2)


def test_what_was_written_is_read_back(finished):
    comparison, out = finished
    again = read_comparison(out)
    assert again.title == comparison.title
    assert json.loads(json.dumps([vars(t) for m in again.methods for t in m.ensembles]))
    assert again.methods[0].score("clean", "nll") == comparison.methods[0].score(
        "clean", "nll"
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
    before = (out / "comparison.json").read_bytes()
    with pytest.raises(FileExistsError, match=r"is not empty; pass resume=True"):
        small(out)
    assert (out / "comparison.json").read_bytes() == before


def test_resuming_with_another_setting_names_it(finished):
    _, out = finished
    with pytest.raises(ValueError, match=r"batch_size must be .*\(32\).* got 16"):
        small(out, resume=True, batch_size=16)


def test_without_shifted_data_there_are_no_shifted_scores(tmp_path):
    comparison = small(tmp_path / "run", shifted=None, ensembles=1)
    assert not comparison.has_shift
    assert comparison.methods[0].ensembles[0].evaluation["shifted"] is None


def test_labels_show_hyperparameters_where_names_repeat():
    assert labels([SAM(rho=0.1), DeepEnsemble(), SAM(rho=0.2)]) == [
        "SAM(rho=0.1, adaptive=False, update_statistics=False)",
        "DeepEnsemble",
        "SAM(rho=0.2, adaptive=False, update_statistics=False)",
    ]
    with pytest.raises(ValueError, match="methods must differ from each other"):
        labels([SAM(), SAM()])


def test_bad_arguments_are_named(tmp_path):
    for changes, message in [
        ({"methods": []}, "methods must hold at least one method"),
        ({"members": 0}, "members must be positive, got 0"),
        ({"ensembles": 0}, "ensembles must be positive, got 0"),
        ({"seed": [1, 2, 3]}, r"seed must name one seed per member \(4\)"),
    ]:
        with pytest.raises(ValueError, match=message):
            small(tmp_path / "none", **changes)
    assert not (tmp_path / "none").exists()


def test_reading_nothing_or_something_foreign_says_what_to_do(tmp_path):
    with pytest.raises(FileNotFoundError, match="holds no finished comparison"):
        read_comparison(tmp_path)
    (tmp_path / "comparison.json").write_text('{"format": 99}')
    with pytest.raises(ValueError, match=r"comparison.json must be 2, got 99"):
        read_comparison(tmp_path)
    (tmp_path / "comparison.json").write_text("not json")
    with pytest.raises(ValueError, match="must be a JSON document"):
        read_comparison(tmp_path)


def test_global_random_state_is_left_alone(tmp_path):
    before = torch.random.get_rng_state()
    small(tmp_path / "run", ensembles=1, shifted=None)
    assert torch.equal(before, torch.random.get_rng_state())


def test_sharpness_is_measured_on_training_data_and_kept(tmp_path, monkeypatch):
    options = {"num_samples": 10, "steps": 3}
    found = small(tmp_path, sharpness=options, ensembles=1)
    assert found.has_sharpness
    for method in found.methods:
        (trained,) = method.ensembles
        members = tepui.load(tmp_path / trained.folder)
        train = Digits().subset(range(96))
        again = tepui.measure(members, train, partial(worst_case, **options))
        assert trained.sharpness["mean"] == again["worst_case"].mean
        assert method.sharpness.mean == again["worst_case"].mean

    def never(*arguments, **keywords):
        raise AssertionError("measured twice")

    monkeypatch.setitem(vars(sys.modules[compare.__module__]), "measure", never)
    resumed = small(tmp_path, sharpness=options, ensembles=1, resume=True)
    assert resumed == found == read_comparison(tmp_path)


def test_sharpness_is_left_out_unless_asked_for(finished):
    comparison, _ = finished
    assert not comparison.has_sharpness


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
        assert method.score("clean", "mean_margin").mean == pytest.approx(expected)
        cells = [mean_margin(*cell).item() for cell in stored.shifted.values()]
        shifted = method.score("shifted", "mean_margin").mean
        assert shifted == pytest.approx(sum(cells) / len(cells))
    assert read_comparison(tmp_path / "run").custom_metrics == ("mean_margin",)


def test_a_resumed_comparison_measures_metrics_it_has_not(tmp_path):
    out = tmp_path / "run"
    plain = small(out, ensembles=1, methods=METHODS[:1])
    assert plain.custom_metrics == ()
    again = small(
        out,
        ensembles=1,
        methods=METHODS[:1],
        metrics={"mean_margin": mean_margin},
        resume=True,
    )
    assert again.custom_metrics == ("mean_margin",)
    assert again.methods[0].score("clean", "nll") == plain.methods[0].score(
        "clean", "nll"
    )


def test_metrics_are_checked_before_anything_is_trained(tmp_path):
    with pytest.raises(ValueError, match="metrics must have another name"):
        small(tmp_path / "run", metrics={"nll": mean_margin})
    assert not (tmp_path / "run").exists()
