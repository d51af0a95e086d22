import json

import pytest
import torch
from engine.cases import (
    CHECKPOINT,
    Noisy,
    Plain,
    Stop,
    assert_same_bits,
    assert_same_runs,
    convnet,
    copied,
    fitted,
    images,
    linear,
    mlp,
    noisy_net,
    numbers,
    one_thread,
    stop_after,
    untimed,
)

import tepui
from tepui.data import Arrays, HorizontalFlip, Normalize, RandomCrop
from tepui.losses import cross_entropy
from tepui.methods import SAM, DeepEnsemble

single = pytest.fixture(autouse=True)(one_thread)

METHODS = [DeepEnsemble(), SAM(rho=0.1)]
FULL = {"augment": (RandomCrop(1), HorizontalFlip()), "validation": 0.25}


def killed_and_resumed(data, out, *epochs, **how):
    """Stop after each of the epochs, before its checkpoint, and go on each time."""
    for epoch in epochs:
        with pytest.raises(Stop):
            fitted(data, out=out, resume=True, callbacks=[stop_after(epoch)], **how)
    return fitted(data, out=out, resume=True, **how)


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("method", METHODS, ids=repr)
@pytest.mark.parametrize(
    "optimizer",
    [tepui.SGD(lr=0.1, nesterov=True), tepui.AdamW(lr=0.01)],
    ids=["SGD", "AdamW"],
)
@pytest.mark.parametrize("factory", [noisy_net, convnet])
def test_resumed_equals_uninterrupted(tmp_path, method, optimizer, factory):
    how = {"method": method, "optimizer": optimizer, "factory": factory, "epochs": 4}
    how |= {"keep": "best", "schedule": tepui.Cosine(warmup=1.5), **FULL}
    whole = fitted(images(), out=tmp_path / "whole", **how)
    parts = killed_and_resumed(images(), tmp_path / "parts", 0, 1, 1, 3, **how)
    assert_same_runs(whole, parts)
    assert_same_bits(whole, fitted(images(), **how))


def test_a_loaded_data_set_with_random_transforms_resumes(tmp_path):
    data, how = Noisy(images()), {"epochs": 3, "keep": "best", "validation": 0.25}
    parts = killed_and_resumed(data, tmp_path, 1, 2, **how)
    assert_same_runs(fitted(data, **how), parts)


class Counting(torch.optim.SGD):
    """Keeps a plain number in its state, as many optimizers do."""

    def step(self, closure=None):
        for parameter in self.param_groups[0]["params"]:
            state = self.state[parameter]
            state["taken"] = state.get("taken", 0) + 1
            parameter.grad = parameter.grad / state["taken"]
        super().step(closure)


def test_numbers_in_the_state_of_an_optimizer_survive(tmp_path):
    def optimizer(parameters):
        return Counting(parameters, lr=0.1, momentum=0.9)

    how = {"factory": mlp, "epochs": 3, "optimizer": optimizer}
    whole = fitted(numbers(), **how)
    assert_same_runs(whole, killed_and_resumed(numbers(), tmp_path, 0, 1, **how))


def test_rare_checkpoints_lose_epochs_but_no_bits(tmp_path):
    how = {"epochs": 5, "checkpoint_every": 2, "method": SAM()}
    whole = fitted(images(), **how)
    assert_same_runs(whole, killed_and_resumed(images(), tmp_path, 0, 3, 4, **how))


@pytest.mark.parametrize("every", [1, 2])
def test_metrics_hold_one_line_per_epoch(tmp_path, every):
    how = {"epochs": 4, "checkpoint_every": every}
    run = killed_and_resumed(images(), tmp_path, 0, 0, 2, **how)
    rows = [json.loads(row) for row in (tmp_path / "metrics.jsonl").open()]
    assert [row["epoch"] for row in rows] == [0, 1, 2, 3]
    assert [tuple(row["loss"]) for row in rows] == [r.loss for r in run.history]


def test_a_finished_run_trains_nothing_and_returns_the_same(tmp_path):
    how = {"epochs": 3, "keep": "best", "validation": 0.25, "out": tmp_path}
    first = fitted(images(), **how)
    before = files(tmp_path)
    ensemble_of_zeros = tepui.Ensemble.build(noisy_net, members=2, seed=3)
    for parameter in ensemble_of_zeros.parameters():
        parameter.data.zero_()
    again = tepui.fit(
        ensemble_of_zeros,
        images(),
        method=DeepEnsemble(),
        batch_size=8,
        device="cpu",
        resume=True,
        progress="none",
        callbacks=[stop_after(0), stop_after(1), stop_after(2)],
        **how,
    )
    assert again.ensemble is ensemble_of_zeros
    assert_same_runs(first, again)
    assert first.history == again.history
    assert files(tmp_path) == before


def test_killed_between_last_checkpoint_and_ensemble(tmp_path):
    how = {"epochs": 3, "keep": "best", "validation": 0.25, "out": tmp_path}
    first = fitted(images(), **how)
    (tmp_path / "ensemble.safetensors").unlink()
    again = fitted(images(), resume=True, callbacks=[stop_after(2)], **how)
    assert_same_runs(first, again)
    assert (tmp_path / "ensemble.safetensors").exists()


def test_resume_starts_a_run_that_is_new(tmp_path):
    assert_same_runs(
        fitted(images(), out=tmp_path / "new", resume=True), fitted(images())
    )


@pytest.mark.parametrize("killed", [True, False])
def test_a_run_is_never_overwritten(tmp_path, killed):
    callbacks = [stop_after(1)] if killed else []
    try:
        fitted(images(), out=tmp_path, callbacks=callbacks)
    except Stop:
        assert killed
    before = files(tmp_path)
    with pytest.raises(FileExistsError, match=r"holds a run; pass resume=True"):
        fitted(images(), out=tmp_path)
    assert files(tmp_path) == before


@pytest.mark.parametrize("resume", [True, False])
def test_a_foreign_folder_is_refused(tmp_path, resume):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="out must be a new or empty folder, got"):
        fitted(images(), out=tmp_path, resume=resume)
    assert files(tmp_path) == {"thesis.txt": b"mine"}


@pytest.mark.parametrize("document", ["[1]", '{"config": {}}', '{"format": 1}', "no"])
def test_a_foreign_description_is_refused(tmp_path, document):
    (tmp_path / "run.json").write_text(document)
    with pytest.raises(ValueError, match=r"run.json must (describe|be a JSON)"):
        fitted(images(), out=tmp_path, resume=True)


def test_a_kill_before_the_description_was_whole_leaves_no_obstacle(tmp_path):
    (tmp_path / ".run.json.4711.tmp").write_text('{"form')
    assert_same_runs(fitted(images(), out=tmp_path, resume=True), fitted(images()))


def mean_over_classes(outputs, targets):
    return cross_entropy(outputs, targets)


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("epochs", 2, 3, r"\(2\).*got 3"),
        ("batch_size", 8, 9, r"\(8\).*got 9"),
        ("method", SAM(rho=0.1), SAM(rho=0.2), r"'rho': 0.1.*'rho': 0.2"),
        ("method", SAM(), DeepEnsemble(), "SAM.*DeepEnsemble"),
        ("optimizer", tepui.SGD(), tepui.SGD(lr=0.2), r"'lr': 0.1.*'lr': 0.2"),
        ("schedule", tepui.Constant(), tepui.Cosine(), "Constant.*Cosine"),
        ("loss", cross_entropy, mean_over_classes, "cross_entropy.*mean_over_classes"),
        ("augment", (), (RandomCrop(1),), r"\[\].*RandomCrop"),
        ("clip_norm", None, 1.0, r"\(None\).*got 1.0"),
        ("accumulate", 1, 2, r"\(1\).*got 2"),
        ("validation", None, 0.25, "data"),
        ("precision", "float32", "bfloat16", "'float32'.*'bfloat16'"),
        ("deterministic", False, True, r"\(False\).*got True"),
        ("seed", 3, 4, "seeds"),
        ("members", 2, 3, "models"),
        ("factory", noisy_net, convnet, "Sequential.*ConvNet"),
    ],
)
def test_a_changed_argument_is_named_with_both_values(
    tmp_path, name, old, new, message
):
    with pytest.raises(Stop):
        fitted(images(), out=tmp_path, callbacks=[stop_after(1)], **{name: old})
    before = files(tmp_path)
    with pytest.raises(ValueError, match="must be what the run in .*" + message) as info:
        fitted(images(), out=tmp_path, resume=True, **{name: new})
    renamed = {"seed": "seeds", "members": "models", "factory": "models"}
    assert str(info.value).startswith(renamed.get(name, name)) or name == "validation"
    assert files(tmp_path) == before


def test_changed_data_are_noticed(tmp_path):
    data = images()
    with pytest.raises(Stop):
        fitted(data, out=tmp_path, callbacks=[stop_after(0)])
    other = data.inputs.clone()
    other[3, 0, 0, 0] += 1e-3
    normalised = Arrays(data.inputs, data.targets, Normalize((0.5,), (0.5,)))
    for changed in (Arrays(other, data.targets), normalised, Plain(data)):
        with pytest.raises(ValueError, match="data must be what the run in"):
            fitted(changed, out=tmp_path, resume=True)


@pytest.mark.parametrize("file", [CHECKPOINT, "ensemble.safetensors"])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.999])
def test_a_truncated_file_is_named(tmp_path, file, share):
    fitted(images(), out=tmp_path)
    if file == CHECKPOINT:
        (tmp_path / "ensemble.safetensors").unlink()
    path = tmp_path / file
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ValueError, match=f"{file} must be a whole safetensors file"):
        fitted(images(), out=tmp_path, resume=True)


def test_a_foreign_checkpoint_is_named(tmp_path):
    fitted(images(), out=tmp_path)
    (tmp_path / "ensemble.safetensors").rename(tmp_path / CHECKPOINT)
    with pytest.raises(ValueError, match=f"{CHECKPOINT} must be a checkpoint of"):
        fitted(images(), out=tmp_path, resume=True)


def test_a_resume_uses_the_threads_the_run_began_with(tmp_path):
    seen = []
    torch.set_num_threads(2)
    with pytest.raises(Stop):
        fitted(numbers(), linear, out=tmp_path, callbacks=[stop_after(0)])
    torch.set_num_threads(1)
    note = [lambda record: seen.append(torch.get_num_threads())]
    fitted(numbers(), linear, out=tmp_path, resume=True, callbacks=note)
    assert seen == [2, 2]
    assert torch.get_num_threads() == 1


def test_the_ensemble_given_may_have_other_weights(tmp_path):
    with pytest.raises(Stop):
        fitted(images(), out=tmp_path, callbacks=[stop_after(1)])
    ensemble = tepui.Ensemble.build(noisy_net, members=2, seed=3)
    start = copied(ensemble)
    for parameter in ensemble.parameters():
        parameter.data.fill_(7.0)
    run = tepui.fit(
        ensemble,
        images(),
        method=DeepEnsemble(),
        epochs=2,
        batch_size=8,
        device="cpu",
        out=tmp_path,
        resume=True,
        progress="none",
    )
    whole = fitted(images())
    assert_same_bits(run, whole)
    assert untimed(run.history) == untimed(whole.history)
    assert start.keys() == copied(ensemble).keys()
