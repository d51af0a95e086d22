"""Figures and tables of SED, at smoke size, against what they are defined as."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor

from tepui.core.seeding import seeded
from tepui.papers.published import printed, published
from tepui.papers.recipe import Order
from tepui.papers.reproduce import check_needs
from tepui.papers.sed import curves, figure2, protocol, tables
from tepui.papers.sed.protocol import (
    DETECTED,
    INDEPENDENT,
    LABELED,
    METHODS,
    features,
    of_its_classes,
    trial,
    trials,
)
from tepui.papers.sed.scales import STUDIES, near_start
from tepui.studies.jobs import carry_out
from tepui.studies.results import results
from tepui.studies.store import Store

TABLES = {number: tables.RECIPES[f"table{number}"] for number in (1, 2, 3)}
SMOKE, PAPER = Order("smoke", ()), Order("paper", ())
STUDY = STUDIES["smoke"]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    made = Store(tmp_path_factory.mktemp("store"), device="cpu")
    carry_out(TABLES[2].plan(SMOKE), made)
    return made


def found(recipe, store):
    return results("sed/x", "", "smoke", {}, recipe.records(store, SMOKE), store.device)


def outputs(store, name, repetition, dataset, members, size=None):
    """Run each head by itself."""
    run = store.run(trial(STUDY, name, repetition, size))
    data = store.dataset(features(STUDY, repetition, dataset))
    with torch.no_grad():
        heads = [head.eval()(data.inputs) for head in run.ensemble.members]
    return torch.stack(heads[:members]), data.targets


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_unique_predictions_are_different_classes(store, name):
    table = found(TABLES[1], store)
    for dataset in (*DETECTED, "imagenet_val"):
        values = []
        for repetition in range(STUDY.ensembles):
            logits, _ = outputs(store, name, repetition, dataset, STUDY.members)
            chosen = logits.argmax(-1).T.tolist()
            values.append(sum(len(set(row)) for row in chosen) / len(chosen))
        record = table.one(method=name, dataset=dataset)
        assert record.values == pytest.approx(values, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "trained", "members"),
    [
        ("single", "deep_ensemble", 1),
        ("deep_ensemble_varied", "deep_ensemble_varied", STUDY.members),
        ("sed_a2d", "sed_a2d", STUDY.large),
    ],
)
def test_three_ways_to_join_members(store, name, trained, members):
    table = found(TABLES[2], store)
    for dataset in LABELED:
        expected = {
            "oracle selection": [],
            "prediction ensemble": [],
            "uniform soup": [],
        }
        for repetition in range(STUDY.ensembles):
            size = members if trained == "sed_a2d" else None
            logits, labels = outputs(store, trained, repetition, dataset, members, size)
            right = (logits.argmax(-1) == labels).double().mean(1)
            expected["oracle selection"].append(float(right.max()))
            mean = logits.mean(0).argmax(-1) == labels
            expected["prediction ensemble"].append(float(mean.double().mean()))
            run = store.run(trial(STUDY, trained, repetition, size))
            heads = list(run.ensemble.members)[:members]
            weights = [dict(head.named_parameters()) for head in heads]
            soup = {
                key: torch.stack([each[key] for each in weights]).mean(0)
                for key in weights[0]
            }
            data = store.dataset(features(STUDY, repetition, dataset))
            joined = torch.func.functional_call(heads[0], soup, data.inputs)
            hits = joined.argmax(-1) == labels
            expected["uniform soup"].append(float(hits.double().mean()))
        for way, values in expected.items():
            record = table.one(
                method=name, dataset=dataset, aggregation=way, ensemble_size=members
            )
            assert record.values == pytest.approx([100 * v for v in values], abs=1e-4)


@pytest.mark.parametrize("score", ["BMA", "PDS"])
def test_auroc_is_that_of_scikit_learn(store, score):
    table = found(TABLES[3], store)

    def scores(dataset: str) -> Tensor:
        logits, _ = outputs(store, "a2d", 1, dataset, STUDY.members)
        probs = logits.double().softmax(-1)
        return -probs.mean(0).amax(-1) if score == "BMA" else probs.amax(0).mean(-1)

    for dataset in DETECTED:
        familiar, other = scores("imagenet_val"), scores(dataset)
        truth = [0] * len(familiar) + [1] * len(other)
        expected = roc_auc_score(truth, torch.cat([familiar, other]))
        record = table.one(method="a2d", dataset=dataset, score=score)
        assert record.values[1] == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("name", INDEPENDENT)
def test_small_ensembles_are_part_of_large_ones(store, name):
    large = trial(STUDY, name, 0)
    optimizer, loss = large.training.optimizer, large.training.loss
    if name == "deep_ensemble_varied":
        optimizer = replace(
            optimizer, lr=optimizer.lr[:2], weight_decay=optimizer.weight_decay[:2]
        )
        loss = replace(loss, label_smoothing=loss.label_smoothing[:2])
    small = replace(large, seeds=large.seeds[:2])
    small = small.trained_with(optimizer=optimizer, loss=loss)
    alone = store.run(small).ensemble
    for own, shared in zip(
        alone.members, store.run(large).ensemble.members, strict=False
    ):
        for key, tensor in own.state_dict().items():
            assert torch.equal(tensor, shared.state_dict()[key])


SAID = torch.eye(3)[None, :2].repeat(5, 1, 1), torch.zeros(2)
ANYTHING = {
    name: SimpleNamespace(read=lambda: iter([SAID]), labels=SAID[1])
    for name in (*DETECTED, *LABELED)
}


def saying_anything(store, study, runs, members):
    whole = SimpleNamespace(members=(), seeds=())
    unread = SimpleNamespace(run=lambda _: SimpleNamespace(ensemble=whole))
    return [protocol.Tested(unread, study, 0, run, members, ANYTHING) for run in runs]


@pytest.mark.parametrize("number", [1, 2, 3])
def test_every_printed_number_has_its_record(monkeypatch, number):
    monkeypatch.setattr(protocol, "tested", saying_anything)
    monkeypatch.setattr(tables, "Ensemble", lambda *_: None)
    monkeypatch.setattr(tables, "uniform_soup", lambda _: None)
    monkeypatch.setattr(tables, "in_three_ways", lambda *_: (0.5, 0.5, 0.5))
    rows = [printed(record) for record in TABLES[number].records(None, PAPER)]
    joined = [row["id"] for row in rows if row is not None]
    wanted = [row["id"] for row in published() if row["item"] == f"sed/table{number}"]
    assert sorted(joined) == sorted(wanted)
    assert len(wanted) == {1: 20, 2: 135, 3: 44}[number]


def test_named_methods_have_their_small_ensembles_in_table_2(monkeypatch):
    monkeypatch.setattr(protocol, "tested", saying_anything)
    monkeypatch.setattr(tables, "Ensemble", lambda *_: None)
    monkeypatch.setattr(tables, "uniform_soup", lambda _: None)
    monkeypatch.setattr(tables, "in_three_ways", lambda *_: (0.5, 0.5, 0.5))
    pair = Order("paper", methods=("a2d", "sed_a2d"))
    some, all_ = (TABLES[2].records(None, order) for order in (pair, PAPER))
    small = protocol.study_of(PAPER).members
    assert {(r.method, r.at["ensemble_size"]) for r in some} == {
        ("a2d", small),
        ("sed_a2d", small),
    }
    assert {*map(repr, some)} < {*map(repr, all_)}
    with pytest.raises(ValueError, match="methods must be one of"):
        list(tables.generalization(Order("paper", methods=("sam",))))


def test_figures_train_nothing_that_a_table_has():
    def digests(recipe):
        return {each.trial.digest for each in recipe.plan(SMOKE)}

    assert digests(TABLES[1]) == digests(TABLES[3]) < digests(TABLES[2])
    assert digests(figure2.RECIPE) < digests(TABLES[1])
    extractors, repetitions = STUDY.ensembles, STUDY.ensembles
    shared = digests(curves.RECIPES["figure3"]) & digests(TABLES[1])
    assert len(shared) == extractors + repetitions  # lambda 0.1
    shared = digests(curves.RECIPES["figure4"]) & digests(TABLES[2])
    assert len(shared) == extractors + 2 * repetitions  # ordinary and large


def test_every_head_of_sed_has_as_many_updates_as_elsewhere():
    for name in ("small", "smoke"):
        study = STUDIES[name]
        for size in study.sizes:
            run = trial(study, "sed_a2d", 0, size)
            assert run.training.epochs * 2 == study.epochs * size
    assert trial(STUDIES["paper"], "sed_a2d", 0, 50).training.epochs == 10


def test_heads_start_near_each_other_and_far_from_another_start():
    def head(seed, start):
        with seeded(seed, "initialization"):
            made = near_start(start, in_features=6, hidden=5)
        return torch.cat([p.detach().flatten() for p in made.parameters()])

    first, twin, other = head(0, 0), head(1, 0), head(0, 1)
    assert 0 < (first - twin).norm() < 0.05 * first.norm()
    assert (first - other).norm() > 0.5 * first.norm()


def test_only_the_papers_partial_sets_are_restricted():
    logits = torch.tensor([[[3.0, 0.0, 1.0], [3.0, 2.0, 1.0]]])
    labels = torch.tensor([2, 1])
    for dataset in LABELED:
        given = (logits[:, :1], labels[:1]), (logits[:, 1:], labels[1:])
        runs = [*of_its_classes(STUDIES["paper"], dataset, labels, iter(given))]
        inside, numbered = runs[0][0], torch.cat([answers for _, answers in runs])
        partial = dataset in ("imagenet_a", "imagenet_r")
        assert inside.shape[-1] == (2 if partial else 3)
        assert numbered.tolist() == ([1, 0] if partial else [2, 1])
        ((kept, _), _) = of_its_classes(STUDY, dataset, labels, iter(given))
        assert kept is given[0][0]


def test_gallery_holds_the_extremes_and_shows_their_images(store):
    made = found(figure2.RECIPE, store)
    logits, labels = outputs(store, "sed_a2d", 0, "imagenet_r", STUDY.members)
    scores = logits.softmax(-1).amax(0).mean(-1)
    most = [r.value for r in made.find(divergent="most")]
    least = [r.value for r in made.find(divergent="least")]
    ordered = scores.sort().values
    assert most == pytest.approx(ordered.flip(0)[:5].tolist(), abs=1e-6)
    assert least == pytest.approx(ordered[:5].tolist(), abs=1e-6)
    images = STUDY.images(0)["imagenet_r"].load(store)
    figure = figure2.draw(made)
    for axis, record in zip(figure.axes, made.records, strict=True):
        shown = torch.tensor(axis.images[0].get_array())
        pixels = images.inputs[record.at["row"], 0].float() / 255
        assert torch.equal(shown.float(), pixels)
        assert f"GT: {int(labels[record.at['row']])}" in axis.get_title()
        own = set(map(str, logits[:, record.at["row"]].argmax(-1).tolist()))
        named = {record.at["prediction"], *record.at["others"].split(", ")} - {""}
        assert own <= named


def test_step_times_are_those_of_the_fastest_epoch_over_the_smallest(monkeypatch):
    class Clock:
        def run(self, run):
            seconds = (99.0, float(len(run.seeds)), 98.0)
            epochs = [SimpleNamespace(seconds=each) for each in seconds]
            return SimpleNamespace(history=epochs)

    monkeypatch.setattr(protocol, "tested", saying_anything)
    records = list(curves.RECIPES["figure4"].records(Clock(), SMOKE))
    times = [r for r in records if r.metric == "relative_step_time"]
    assert len(times) == 3 * len(STUDY.sizes)
    for record in times:
        expected = record.at["ensemble_size"] / STUDY.sizes[0]
        assert record.values == (expected,) * STUDY.ensembles


def test_answers_of_shifted_sets_have_the_labels_of_their_images(store):
    sets = next(protocol.tested(store, STUDY, trials(STUDY, "sed_a2d"), 2)).sets
    clean = sets["imagenet_val"].labels
    assert torch.equal(sets["imagenet_r"].labels, clean)
    assert torch.equal(sets["imagenet_c5"].labels, clean)
    assert all(len(logits) == 2 for each in sets.values() for logits, _ in each.read())


def test_all_images_of_the_paper_are_asked_for_before_heads_train(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("TEPUI_DATA", str(tmp_path / "data"))
    store = Store(tmp_path / "store", device="cpu")
    with pytest.raises(FileNotFoundError) as error:
        check_needs(TABLES[3].plan(PAPER), store)
    told = str(error.value).splitlines()
    for name in ("ImageNet", "ImageNetA", "ImageNetR", "ImageNetC"):
        assert any(line.startswith(f"{name} is not in {tmp_path}") for line in told)
    for name in ("inaturalist", "openimages-o"):
        assert any(f"images in {tmp_path}/data/{name} or" in line for line in told)
    assert not store.path.exists()
