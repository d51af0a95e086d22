"""What is sent to the hub fits its library; nothing is sent."""

import inspect

import pytest
import torch

import tepui
from tepui.hub import from_pretrained, model_card, push_to_hub
from tepui.models import MLP

library = pytest.importorskip("huggingface_hub", reason="needs the extra hub")
errors = pytest.importorskip("huggingface_hub.errors", reason="needs the extra hub")


class MissingError(errors.EntryNotFoundError):
    """What the library says of a file that is not there, however it is built."""

    def __init__(self, said):
        Exception.__init__(self, said)


@pytest.fixture
def ensemble():
    return tepui.Ensemble.build(lambda: MLP(4, (8,), 2), members=2, seed=1).eval()


def test_the_library_reads_the_numbers_of_a_card(ensemble):
    data = tepui.data.Arrays(torch.randn(40, 4), torch.arange(40) % 2)
    evaluation = tepui.evaluate(ensemble, data)
    text = model_card(ensemble, evaluation, data="halves", license="mit", title="Mine")
    card = library.ModelCard(text)
    assert card.data.library_name == "tepui"
    assert card.data.license == "mit"
    read = {
        result.metric_type: result.metric_value for result in card.data.eval_results
    }
    assert read["accuracy"] == evaluation.clean.accuracy
    assert {result.dataset_name for result in card.data.eval_results} == {"halves"}


def test_calls_fit_the_library(ensemble, monkeypatch):
    """Every call is bound to the real signature, and goes nowhere."""
    calls = []

    def recorded(name, answer):
        real = inspect.signature(getattr(library.HfApi, name))

        def call(self, *values, **named):
            calls.append((name, real.bind(self, *values, **named).arguments))
            return answer

        monkeypatch.setattr(library.HfApi, name, call)

    recorded("create_repo", None)
    commit = type("Commit", (), {"commit_url": "https://somewhere"})
    recorded("upload_folder", commit)
    assert push_to_hub(ensemble, "someone/mine") == "https://somewhere"
    assert [name for name, _ in calls] == ["create_repo", "upload_folder"]
    assert calls[0][1]["private"] is True


def test_a_download_fits_the_library(ensemble, tmp_path, monkeypatch):
    real = inspect.signature(library.hf_hub_download)
    saved = ensemble.save(tmp_path)

    def download(*values, **named):
        bound = real.bind(*values, **named).arguments
        assert bound["repo_id"] == "someone/mine"
        if bound["filename"] != saved.name:
            raise MissingError("not there")
        return str(saved)

    monkeypatch.setattr(library, "hf_hub_download", download)
    inputs = torch.randn(3, 4)
    found = from_pretrained("someone/mine").predict(inputs).logits
    assert torch.equal(found, ensemble.predict(inputs).logits)
