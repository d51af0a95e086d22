"""Ensembles to a folder, to the hub and back; the hub is a folder here."""

import shutil
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch
from torch import nn

import tepui
from tepui.evaluation import FeatureDetectors
from tepui.hub import from_pretrained, push_to_hub, save_pretrained
from tepui.models import MLP


@pytest.fixture
def ensemble():
    return tepui.Ensemble.build(lambda: MLP(4, (8,), 2), members=2, seed=1).eval()


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A stand-in for huggingface_hub that keeps repositories in a folder."""
    place = tmp_path / "hub"
    calls = []

    class HfApi:
        def __init__(self, token=None):
            calls.append(("token", token))

        def create_repo(self, repo_id, *, private, exist_ok):
            calls.append(("create", repo_id, private, exist_ok))
            (place / repo_id).mkdir(parents=True, exist_ok=exist_ok)

        def upload_folder(
            self,
            *,
            repo_id,
            folder_path,
            revision,
            commit_message,
            allow_patterns,
            delete_patterns,
        ):
            files = sorted(file.name for file in Path(folder_path).iterdir())
            assert {*files} <= {*allow_patterns}
            calls.append(("upload", repo_id, revision, commit_message, files))
            for name in delete_patterns:
                (place / repo_id / name).unlink(missing_ok=True)
            shutil.copytree(folder_path, place / repo_id, dirs_exist_ok=True)
            return SimpleNamespace(commit_url=f"https://hub/{repo_id}/commit/1")

    errors = ModuleType("huggingface_hub.errors")
    errors.EntryNotFoundError = type("EntryNotFoundError", (Exception,), {})
    inside = (errors.EntryNotFoundError,)
    errors.LocalEntryNotFoundError = type("LocalEntryNotFoundError", inside, {})

    def hf_hub_download(repo_id, filename, *, revision, token):
        calls.append(("download", repo_id, filename, revision, token))
        if not (place / repo_id / filename).exists():
            offline = (place / "offline").exists()
            missing = errors.LocalEntryNotFoundError if offline else inside[0]
            raise missing(filename)
        return str(place / repo_id / filename)

    module = ModuleType("huggingface_hub")
    module.HfApi, module.hf_hub_download = HfApi, hf_hub_download
    module.errors = errors
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)
    monkeypatch.setitem(sys.modules, "huggingface_hub.errors", errors)
    return calls


def same(first, second):
    inputs = torch.randn(3, 4)
    return torch.equal(first.predict(inputs).logits, second.predict(inputs).logits)


def test_a_folder_needs_no_hub(ensemble, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    folder = save_pretrained(ensemble, tmp_path / "mine")
    assert same(from_pretrained(folder), ensemble)
    assert same(tepui.load(folder), ensemble)
    assert 'from_pretrained("mine")' in (folder / "README.md").read_text()


def test_there_and_back(ensemble, hub):
    url = push_to_hub(ensemble, "someone/mine", revision="main", token="secret")
    assert url == "https://hub/someone/mine/commit/1"
    assert hub == [
        ("token", "secret"),
        ("create", "someone/mine", True, True),
        (
            *("upload", "someone/mine", "main", "Upload an ensemble"),
            ["README.md", "ensemble.safetensors"],
        ),
    ]
    found = from_pretrained("someone/mine", revision="main")
    assert hub[3:] == [
        ("download", "someone/mine", "ensemble.safetensors", "main", None),
        ("download", "someone/mine", "detectors.safetensors", "main", None),
    ]
    assert same(found, ensemble)


def features_of(detectors):
    return torch.cat([tensor.flatten() for tensor in detectors.tensors().values()])


def test_detectors_go_there_and_back(ensemble, hub):
    data = tepui.data.Arrays(torch.randn(30, 4), torch.arange(30) % 2)
    ensemble.detectors = FeatureDetectors.fit(ensemble, data, held_out=data, k=3)
    push_to_hub(ensemble, "someone/mine")
    (uploaded,) = (call[-1] for call in hub if call[0] == "upload")
    assert uploaded == ["README.md", "detectors.safetensors", "ensemble.safetensors"]
    found = from_pretrained("someone/mine")
    assert torch.equal(features_of(found.detectors), features_of(ensemble.detectors))


def test_an_ensemble_without_detectors_takes_those_there_away(ensemble, hub):
    data = tepui.data.Arrays(torch.randn(30, 4), torch.arange(30) % 2)
    ensemble.detectors = FeatureDetectors.fit(ensemble, data, k=3)
    push_to_hub(ensemble, "someone/mine")
    with torch.no_grad():
        next(ensemble.parameters()).add_(1)
    ensemble.detectors = None
    push_to_hub(ensemble, "someone/mine")
    assert from_pretrained("someone/mine").detectors is None


def test_without_a_connection_what_was_fetched_before_is_loaded(
    ensemble, hub, tmp_path
):
    push_to_hub(ensemble, "someone/mine")
    (tmp_path / "hub/offline").touch()
    with pytest.warns(UserWarning, match="cannot be asked for detectors .* of someone"):
        assert same(from_pretrained("someone/mine"), ensemble)


def test_detectors_of_other_weights_do_not_stay(ensemble, tmp_path):
    data = tepui.data.Arrays(torch.randn(30, 4), torch.arange(30) % 2)
    ensemble.detectors = FeatureDetectors.fit(ensemble, data, k=3)
    save_pretrained(ensemble, tmp_path)
    assert from_pretrained(tmp_path).detectors is not None
    with torch.no_grad():
        next(ensemble.parameters()).add_(1)
    with pytest.warns(UserWarning, match="other weights"):
        save_pretrained(ensemble, tmp_path, overwrite=True)
    assert from_pretrained(tmp_path).detectors is None


def test_a_factory_reaches_models_of_ones_own(hub):
    own = tepui.Ensemble.build(lambda: nn.Linear(4, 2), members=2).eval()
    push_to_hub(own, "someone/own")
    with pytest.raises(ValueError, match="factory must be given"):
        from_pretrained("someone/own")
    assert same(from_pretrained("someone/own", factory=lambda: nn.Linear(4, 2)), own)


def test_nothing_is_overwritten_unasked(ensemble, tmp_path):
    (tmp_path / "README.md").write_text("mine")
    with pytest.raises(FileExistsError, match=r"README.md exists"):
        save_pretrained(ensemble, tmp_path)
    assert not (tmp_path / "ensemble.safetensors").exists()
    assert (tmp_path / "README.md").read_text() == "mine"
    save_pretrained(ensemble, tmp_path, overwrite=True)
    assert (tmp_path / "README.md").read_text() != "mine"


@pytest.mark.parametrize("name", ["runs/mine/there", "mine", "../mine", "a/"])
def test_what_is_neither_folder_nor_repository_is_refused(name, hub, monkeypatch):
    monkeypatch.chdir(Path(__file__).parent)
    with pytest.raises(ValueError, match="name must be a folder, or owner/name on"):
        from_pretrained(name)
    assert hub == []


def test_a_folder_has_no_revision(ensemble, tmp_path):
    save_pretrained(ensemble, tmp_path)
    with pytest.raises(ValueError, match="revision must be None for a folder"):
        from_pretrained(tmp_path, revision="main")


def test_a_missing_library_is_named_with_its_extra(ensemble, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    message = r'huggingface_hub is not installed: pip install "tepui\[hub\]"'
    for call in (
        lambda: from_pretrained("someone/mine"),
        lambda: push_to_hub(ensemble, "someone/mine"),
    ):
        with pytest.raises(ImportError, match=message):
            call()
