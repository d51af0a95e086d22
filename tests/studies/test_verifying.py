"""Every damaged, missing or foreign file of a folder is named."""

import json

import pytest

from damage_cases import CASES, comparison, copies, evaluated, record, run, study
from study_cases import read_comparison
from tepui.core.processes import mark
from tepui.core.storage import read_document, write_document
from tepui.studies import verify
from tepui.studies.verifying import LEFT_OVER, UNSEALED


def damage(folder):
    return {f.file.name: f.damage for f in verify(folder) if f.damage is not None}


def kinds(folder):
    return {finding.file.name: finding.kind for finding in verify(folder)}


@pytest.fixture
def whole(tmp_path):
    """A folder with a run, an evaluation, results, copies and files of others."""
    run(tmp_path / "run")
    for make in (evaluated, copies, study, record):
        (tmp_path / make.__name__).mkdir(exist_ok=True)
        make(tmp_path / make.__name__)
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "mine.json").write_text("[1]")
    (tmp_path / "run/tracker").mkdir()
    (tmp_path / "run/tracker/events.jsonl").write_text('{"loss": 1}\nand no JSON\n')
    return tmp_path


def test_a_whole_folder_has_no_damage(whole):
    assert damage(whole) == {}
    found = kinds(whole)
    assert found["ensemble.safetensors"] == "ensemble"
    assert found["member1-2.safetensors"] == "member"
    assert found["clean.safetensors"] == "logits"
    assert found["clean.json"] == "evaluation"
    assert found["metrics.jsonl"] == "log of epochs"
    assert found["fog.npy"] == "file of a data set"
    of_others = {"notes.txt", "mine.json", "events.jsonl"}
    assert {found[name] for name in of_others} == {UNSEALED}


def test_every_changed_file_is_named(whole):
    files = [f.file for f in verify(whole) if f.kind != UNSEALED]
    assert len(files) > 12
    for file in files:
        content = file.read_bytes()
        middle = len(content) // 2
        changed = (
            content[:middle] + bytes([content[middle] ^ 4]) + content[middle + 1 :]
        )
        file.write_bytes(changed)
        assert file.name in damage(whole), file
        file.write_bytes(content)


def test_a_missing_part_of_a_run_is_named(whole):
    (whole / "run/checkpoint/member1-2.safetensors").unlink()
    (whole / "run/ensemble.safetensors").unlink()
    found = damage(whole / "run")
    assert "member1-2.safetensors" in found["checkpoint.json"]
    assert "hold the ensemble of its ended run" in found["outcome.json"]


def test_a_document_under_a_known_name_must_be_sealed(whole):
    (whole / "run/run.json").write_text("{}")
    assert "must be of format" in damage(whole)["run.json"]


@pytest.mark.parametrize("text", ["", "{not json", "\xff", '{"kind": "Pod"'])
def test_a_broken_document_of_others_is_no_damage(text, whole):
    (whole / "run/settings.json").write_bytes(text.encode("latin-1"))
    assert damage(whole) == {}
    assert kinds(whole)["settings.json"] == UNSEALED
    assert kinds(whole)["mine.json"] == UNSEALED


def test_a_document_of_others_may_have_a_kind(whole):
    (whole / "run/pod.json").write_text('{"kind": "Pod", "apiVersion": "v1"}')
    assert damage(whole) == {}
    assert kinds(whole)["pod.json"] == UNSEALED


def test_a_broken_document_of_tepui_is_damaged_under_any_name(whole):
    text = (whole / "run/run.json").read_text()
    for name in ("copy.json", "cost.json"):
        (whole / "run" / name).write_text(text[:-20])
        assert name in damage(whole)
    (whole / "run/cost.json").write_text("")  # its name alone says whose it is
    assert "cost.json" in damage(whole)


def test_remains_of_killed_writers_are_shown_and_are_no_damage(whole):
    dead = mark().rpartition("-")[0] + "-0"
    (whole / f"run/.run.json.{dead}.tmp").touch()
    assert damage(whole) == {}
    assert LEFT_OVER in kinds(whole).values()


def test_a_comparison_names_folders_inside_its_own(tmp_path):
    file = comparison(tmp_path)
    assert "have the run SAM/0 beside it" in damage(tmp_path)[file.name]
    (tmp_path / "SAM/0").mkdir(parents=True)
    assert damage(tmp_path) == {}
    for elsewhere in ("/etc", "../other", "SAM/../../x"):
        document = read_document(file, "results")
        document["settings"]["runs"] = {"SAM": [elsewhere]}
        write_document(file, "results", document)
        with pytest.raises(ValueError, match=r"results\.json must lie inside its"):
            read_comparison(tmp_path)


def test_one_file_can_be_checked(tmp_path):
    file = study(tmp_path)
    assert [finding.kind for finding in verify(file)] == ["results"]
    with pytest.raises(FileNotFoundError, match="no file or folder"):
        verify(tmp_path / "none")


def test_what_is_sealed_is_what_verify_checks(tmp_path):
    for number, (name, case) in enumerate(CASES.items()):
        if case.sealed:
            folder = tmp_path / str(number)
            folder.mkdir()
            file = case.make(folder)
            (finding,) = verify(file)
            assert finding.kind != UNSEALED, name


def test_a_plan_of_workers_is_checked_before_it_is_unpickled(tmp_path):
    from study_cases import TRIAL
    from tepui.studies.job import Job
    from tepui.studies.plan_file import planned
    from tepui.studies.store import Store

    with planned([Job(TRIAL)], Store(tmp_path, device="cpu")) as (task,):
        content = bytearray(task.plan.read_bytes())
        content[-20] ^= 1
        task.plan.write_bytes(content)
        assert "must hold what was written to it" in task().failure


def test_documents_keep_their_numbers(tmp_path):
    """A seal is added beside what a document says, which stays as it is."""
    file = study(tmp_path)
    sealed = json.loads(file.read_text())
    assert {*sealed} - {*read_document(file, "results")} == {"kind", "format", "sha256"}
