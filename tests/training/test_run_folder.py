"""What a run folder refuses: to be overwritten, mixed up or half read."""

import gc
import json
import re
import shutil

import pytest
import torch

import tepui
from tepui.core.lease import LeaseHeldError
from tepui.core.processes import mark
from tepui.data import Arrays, Normalize, RandomCrop
from tepui.losses import cross_entropy
from tepui.methods import SAM, DeepEnsemble
from tepui.training.run_folder import RunFolder, write_member
from training.cases import (
    CHECKPOINT,
    Plain,
    StoppedError,
    assert_same_runs,
    convnet,
    files,
    fitted,
    images,
    noisy_net,
    stop_after,
)


@pytest.mark.parametrize("killed", [True, False])
def test_a_run_is_never_overwritten(tmp_path, killed):
    callbacks = [stop_after(1)] if killed else []
    try:
        fitted(images(), out=tmp_path, callbacks=callbacks)
    except StoppedError:
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
    assert files(tmp_path) == {tmp_path / "thesis.txt": b"mine"}


def test_a_folder_of_the_first_version_is_refused_in_words(tmp_path):
    (tmp_path / "run.json").write_text('{"format": 1, "config": {"threads": 1}}')
    with pytest.raises(ValueError, match=r"json must be of format 2; files of tepui"):
        fitted(images(), out=tmp_path, resume=True)


@pytest.mark.parametrize("name", ["run.json", "probe"])
def test_a_kill_before_the_description_was_whole_leaves_no_obstacle(name, tmp_path):
    dead = mark().rpartition("-")[0] + "-0"
    (tmp_path / f".{name}.{dead}.tmp").write_text('{"form')
    assert_same_runs(fitted(images(), out=tmp_path, resume=True), fitted(images()))


def same_loss(outputs, targets):
    return cross_entropy(outputs, targets)


@pytest.mark.parametrize(
    ("argument", "old", "new", "message"),
    [
        ("epochs", 2, 3, r"epochs .*\(2\).*got 3"),
        ("batch_size", 8, 9, r"batch_size .*\(8\).*got 9"),
        ("method", SAM(rho=0.1), SAM(rho=0.2), r"method .*\(rho: 0.1\).*got 0.2"),
        ("method", SAM(), DeepEnsemble(), "method .*SAM.*DeepEnsemble"),
        (
            "optimizer",
            tepui.SGD(),
            tepui.SGD(lr=1.0),
            r"optimizer .*lr: 0.1.*got 1.0",
        ),
        ("schedule", tepui.Constant(), tepui.Cosine(), "schedule .*Constant.*Cosine"),
        ("loss", cross_entropy, same_loss, "loss .*cross_entropy.*same_loss"),
        ("augment", (), (RandomCrop(1),), r"augment .*None.*RandomCrop"),
        ("clip_norm", None, 1.0, r"clip_norm .*\(None\).*got 1.0"),
        ("accumulate", 1, 2, r"accumulate .*\(1\).*got 2"),
        ("validation", None, 0.25, r"data .*\(samples: 24\).*got 18"),
        ("validation", images(4), images(5), r"validation .*: 4\).*got 5"),
        ("precision", "float32", "bfloat16", "precision .*'float32'.*'bfloat16'"),
        ("deterministic", False, True, r"deterministic .*\(False\).*got True"),
        ("seed", [1, 2], [1, 3], r"seeds .*: 2\).*got 3"),
        ("members", 1, 2, r"members must be what"),
        ("factory", noisy_net, convnet, "models .*Sequential.*ConvNet"),
    ],
)
def test_a_changed_argument_is_named_with_both_values(
    tmp_path, argument, old, new, message
):
    with pytest.raises(StoppedError):
        fitted(images(), out=tmp_path, callbacks=[stop_after(1)], **{argument: old})
    before = files(tmp_path)
    with pytest.raises(ValueError, match=f"^{message}"):
        fitted(images(), out=tmp_path, resume=True, **{argument: new})
    assert files(tmp_path) == before


def test_changed_data_are_noticed(tmp_path):
    data = images()
    with pytest.raises(StoppedError):
        fitted(data, out=tmp_path, callbacks=[stop_after(0)])
    other = data.inputs.clone()
    other[3, 0, 0, 0] += 1e-3
    normalized = Arrays(data.inputs, data.targets, Normalize((0.5,), (0.5,)))
    for changed in (Arrays(other, data.targets), normalized, Plain(data)):
        with pytest.raises(ValueError, match="data must be what the run in"):
            fitted(changed, out=tmp_path, resume=True)


MEMBER = "checkpoint/member1-2.safetensors"


def unfinished(folder):
    """Return the files of a run that was killed before it saved its ensemble."""
    fitted(images(), out=folder)
    (folder / "ensemble.safetensors").unlink()
    return files(folder)


@pytest.mark.parametrize("file", [MEMBER, "ensemble.safetensors"])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.999])
def test_a_truncated_file_is_named(tmp_path, file, share):
    fitted(images(), out=tmp_path)
    if file == MEMBER:
        (tmp_path / "ensemble.safetensors").unlink()
    path = tmp_path / file
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ValueError, match=f"{file} must be a whole safetensors file"):
        fitted(images(), out=tmp_path, resume=True)


def values(content):
    """Return what JSON lines or a JSON document say, None if that cannot be read."""
    try:
        text = content.decode()
        lines = [text] if text.startswith("{\n") else text.splitlines()
        return [json.loads(line) for line in lines]
    except ValueError:
        return None


@pytest.mark.parametrize("name", [CHECKPOINT, MEMBER, "run.json", "metrics.jsonl"])
def test_a_changed_byte_anywhere_in_the_state_of_a_run_is_refused(tmp_path, name):
    unfinished(tmp_path)
    path = tmp_path / name
    content = path.read_bytes()
    for place in range(3, len(content), max(len(content) // 23, 1)):
        flipped = bytes([content[place] ^ 1])
        changed = content[:place] + flipped + content[place + 1 :]
        if name != MEMBER and values(changed) == values(content):
            continue  # the last of seventeen digits may not matter
        path.write_bytes(changed)
        if path.name == "metrics.jsonl":
            with pytest.raises(ValueError, match=r"metrics\.jsonl"):
                RunFolder(tmp_path).history()
        else:
            with pytest.raises(ValueError, match=re.escape(str(path))):
                fitted(images(), out=tmp_path, resume=True)


def test_a_run_has_one_file_per_member_and_no_older_ones(tmp_path):
    fitted(images(), out=tmp_path, members=3, epochs=4)
    assert sorted(path.name for path in (tmp_path / "checkpoint").iterdir()) == [
        f"member{index}-4.safetensors" for index in range(3)
    ]


def test_files_of_a_checkpoint_that_was_never_committed_do_not_count(tmp_path):
    with pytest.raises(StoppedError):
        fitted(images(), out=tmp_path, epochs=3, callbacks=[stop_after(1)])
    folder = RunFolder(tmp_path)
    tensors, document = folder.load_checkpoint().member(0)
    ruined = {name: torch.zeros_like(tensor) for name, tensor in tensors.items()}
    write_member(folder.checkpoint, 0, 2, ruined, document)
    resumed = fitted(images(), out=tmp_path, resume=True, epochs=3)
    assert_same_runs(resumed, fitted(images(), epochs=3))


def test_a_member_of_another_run_is_refused(tmp_path):
    unfinished(tmp_path / "one")
    fitted(images(), out=tmp_path / "other", seed=[8, 9])
    (tmp_path / "other" / MEMBER).replace(tmp_path / "one" / MEMBER)
    with pytest.raises(ValueError, match=r"member1-2.* names, but its digest is"):
        fitted(images(), out=tmp_path / "one", resume=True)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_memory_is_that_of_this_run_alone():
    gc.collect()
    held = torch.cuda.memory_allocated()  # what other tests left behind
    before = torch.empty(1 << 28, device="cuda")
    del before
    run = fitted(images(), convnet, epochs=2, device="cuda")
    first, second = (record.peak_memory for record in run.history)
    assert held < first <= second < held + (1 << 28)


@pytest.mark.parametrize(
    ("trained", "examined"),
    [("float32", "float32"), ("tf32", "tf32"), ("bfloat16", "tf32")],
)
def test_a_run_is_examined_in_what_it_was_trained_in(tmp_path, trained, examined):
    fitted(images(), out=tmp_path / "run", precision=trained, epochs=1)
    assert RunFolder(tmp_path / "run").exam_precision() == examined
    assert RunFolder(tmp_path / "none").exam_precision() == "tf32"


def test_two_trainers_do_not_share_a_folder(tmp_path):
    def train_again(record):
        with pytest.raises(LeaseHeldError, match=rf"{tmp_path} is in use by process"):
            fitted(images(), out=tmp_path, resume=True)

    first = fitted(images(), out=tmp_path, callbacks=[train_again])
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert len(lines) == len(first.history)


def test_a_folder_removed_during_a_run_is_not_made_anew(tmp_path):
    out = tmp_path / "run"
    with pytest.raises(FileNotFoundError, match="run was removed or emptied while"):
        fitted(images(), out=out, callbacks=[lambda record: shutil.rmtree(out)])
    assert not out.exists()
