"""Which samples members disagree on: by the definition, printed, and in notebooks."""

from itertools import combinations

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import tepui
from ensembles.blobs import blobs
from tepui import Ensemble, tasks
from tepui.core.checks import UNLABELED
from tepui.data import Arrays, Texts
from tepui.metrics import mutual_information


def members(count=3):
    return Ensemble.build(lambda: nn.Linear(2, 3), count, seed=1)


def test_they_are_those_of_the_definition():
    ensemble, data = members(), blobs(80)
    found = ensemble.disagreements(data, 7)
    logits = ensemble.logits(data.inputs)
    said = logits.argmax(-1)
    differ = [len({*answers.tolist()}) > 1 for answers in said.T]
    doubt = [float(mutual_information(logits[:, [n]])) for n in range(80)]
    most = sorted((n for n in range(80) if differ[n]), key=lambda n: -doubt[n])[:7]
    assert found.rows.tolist() == most
    assert torch.equal(found.answers, said[:, most])
    torch.testing.assert_close(found.probs, logits.softmax(-1).amax(-1)[:, most])
    assert torch.equal(found.labels, data.targets[most])
    assert torch.equal(found.chosen, ensemble.predict(data).labels[most])
    for c in range(3):
        own = [n for n in range(80) if data.targets[n] == c]
        assert found.by_class[:, c].tolist() == [len(own), sum(differ[n] for n in own)]
    pairs = [(a != b).double().mean() for a, b in combinations(said, 2)]
    share = found.by_class.sum(1)
    assert max(pairs) <= share[1] / share[0] <= sum(pairs)


def test_it_prints_itself_with_the_names_of_classes():
    data = blobs(60)
    named = Arrays(data.inputs, data.targets, classes=("ant", "bee", "cow"))
    found = members().disagreements(named, 3)
    first, *lines = str(found).splitlines()
    count, differ = found.by_class.sum(1).tolist()
    assert first.startswith(f"members differ on {differ} of {count} samples (")
    assert {word for word in ("ant", "bee", "cow") if word in first}
    rows = [[int(line.split(",")[0]), line.count(",")] for line in lines]
    assert rows == [[row, 3] for row in found.rows.tolist()]  # and three members
    assert found.table[0][1] == named.classes[int(found.labels[0])]


def test_members_that_agree_have_none():
    ensemble = members(2)
    ensemble.members[1].load_state_dict(ensemble.members[0].state_dict())
    data = blobs(20)
    for each in (data, TensorDataset(data.inputs, data.targets)):
        found = ensemble.disagreements(each)
        assert len(found.rows) == 0
        assert str(found) == "members differ on 0 of 20 samples"
        assert "<table" in found._repr_html_()


def test_data_without_labels_are_counted_by_answers():
    data = blobs(50)
    unlabeled = Arrays(data.inputs, torch.full_like(data.targets, UNLABELED))
    ensemble = members()
    found = ensemble.disagreements(unlabeled)
    named = ensemble.predict(data).labels.bincount(minlength=3)
    assert torch.equal(found.by_class[0], named)
    assert {row[1] for row in found.table} == {"?"}


def test_images_and_texts_are_shown():
    generator = torch.Generator().manual_seed(0)
    images = Arrays(torch.rand(20, 1, 8, 8, generator=generator), torch.arange(20) % 3)
    model = lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 3))  # noqa: E731
    shown = Ensemble.build(model, 3, seed=1).disagreements(images, 4)._repr_html_()
    assert shown.count("data:image/png;base64") == 4
    texts = Texts(["a <b> day", "no day", "one more", "the end"], [0, 1, 1, 0])

    class Words(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.EmbeddingBag(len(texts.tokenizer), 2)

        def forward(self, input_ids, attention_mask):
            return self.words(input_ids)

    found = Ensemble.build(Words, 6, seed=1).disagreements(texts)
    words = ["a < b > day", "no day", "one more", "the end"]
    assert found.texts == [words[row] for row in found.rows.tolist()]
    assert len(found.texts) > 0
    page = found._repr_html_()
    assert "data:image" not in page
    assert all(text.replace("<", "&lt;").replace(">", "&gt;") in page for text in words)


REFUSED = {
    "one member": (lambda: members(1), {}, "ensemble must have two members or more"),
    "no samples": (members, {"count": 0}, "count must be positive, got 0"),
    "numbers": (
        lambda: Ensemble.build(lambda: nn.Linear(2, 1), 2, task=tasks.Numbers()),
        {},
        "ensemble must choose one class for each sample, got 'regression'",
    ),
}


@pytest.mark.parametrize(("made", "how", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_disagree_is_refused(made, how, message):
    with pytest.raises(ValueError, match=message):
        made().disagreements(blobs(9), **how)


def test_labels_of_other_classes_are_refused():
    data = blobs(9)
    with pytest.raises(ValueError, match="labels of data must"):
        members().disagreements(tepui.data.Arrays(data.inputs, data.targets + 5))
