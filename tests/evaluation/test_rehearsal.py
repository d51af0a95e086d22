"""Metrics of one's own meet random outputs before anything is trained."""

import math
import re

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from tepui import metrics, tasks
from tepui.evaluation import rehearsal
from tepui.evaluation.rehearsal import rehearse, rows_of_classes


def area(logits, labels):
    probs = logits.double().softmax(-1).mean(0)
    return roc_auc_score(labels.numpy(), probs.numpy(), multi_class="ovr")


def rare(place):
    """Return labels of ten classes, of which the last has five samples."""
    labels = torch.arange(20_000) % 9
    labels[place + 7 * torch.arange(5)] = 9
    return labels


def test_nothing_is_drawn_without_metrics(monkeypatch):
    def fail(*_, **__):
        raise AssertionError("drawn")

    monkeypatch.setattr(rehearsal.torch, "randn", fail)
    maps = torch.zeros(1, dtype=torch.long).expand(2000, 256, 256)
    rehearse({}, tasks.Classes(), (5, 21, 256, 256), maps)


@pytest.mark.parametrize(("most", "samples"), [(2 * 3 * 64 * 10, 10), (5, 3)])
def test_what_is_drawn_is_bounded_but_for_a_few_samples(monkeypatch, most, samples):
    monkeypatch.setattr(rehearsal, "MOST", most)
    seen = []

    def note(outputs, labels):
        seen.append((tuple(outputs.shape), tuple(labels.shape)))
        return 0.0

    maps = torch.zeros(1, dtype=torch.long).expand(500, 8, 8)
    rehearse({"note": note}, tasks.Classes(), (2, 3, 8, 8), maps)
    assert seen == [((2, samples, 3, 8, 8), (samples, 8, 8))]


def test_the_bound_is_one_of_memory():
    assert rehearsal.MOST * 4 <= 2**28  # bytes
    assert rehearsal.FEWEST > 1


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("most", [rehearsal.MOST, 2 * 10 * 2000])
def test_metrics_that_need_every_class_are_not_refused(monkeypatch, most):
    monkeypatch.setattr(rehearsal, "MOST", most)
    for place in (1, 1000, 9998, 15_555):
        rehearse({"area": area}, tasks.Classes(), (2, 10), rare(place))
    rehearse({"area": area}, tasks.Classes(), (2, 10), torch.arange(19_991) % 10)


@pytest.mark.parametrize(
    ("labels", "count"),
    [
        (torch.arange(19_991) % 10, 2000),
        (torch.arange(20_000) % 3000, 3100),
        (rare(4321), 50),
        (torch.arange(64).view(16, 2, 2) - 100, 16),
    ],
)
def test_a_part_holds_every_class_and_is_spread(labels, count):
    rows = rows_of_classes(labels, tasks.Classes(), count)
    assert len(rows) == count
    assert torch.equal(rows, rows.unique())
    assert torch.equal(labels[rows].unique(), labels.unique())
    assert rows[-1] > 0.9 * len(labels) - 1


def test_maps_are_searched_for_classes_in_runs_of_them(monkeypatch):
    monkeypatch.setattr("tepui.evaluation.rehearsal.AT_ONCE", 70)
    maps = torch.zeros(100, 4, 4, dtype=torch.long)
    maps[41, 1, 2], maps[42, 3, 3], maps[77, 0, 0] = 1, 1, -100
    rows = rows_of_classes(maps, tasks.Classes(), 5).tolist()
    assert {0, 41, 77} <= {*rows}
    assert len(rows) == 5


def test_of_labels_either_answer_is_kept_where_there_is_room():
    labels = torch.zeros(1000, 3)
    labels[123, 0] = labels[456, 1] = 1
    labels[:, 2] = 1
    labels[789, 2] = 0
    assert {123, 456, 789} <= {*rows_of_classes(labels, tasks.Labels(), 10).tolist()}
    assert len(rows_of_classes(labels, tasks.Labels(), 2)) == 2


def test_numbers_are_evenly_spaced():
    rows = rows_of_classes(torch.randn(9), tasks.Numbers(), 3)
    assert rows.tolist() == [0, 4, 8]


def of_four(logits, labels):
    if (labels == 4).sum() < 2:
        raise ValueError("class 4 needs two samples")
    return 0.0


def divided(logits, labels):
    return 1 / int((logits > 100).sum())


LABELS = torch.arange(30) % 5


@pytest.mark.parametrize(
    ("metric", "said"),
    [
        (lambda x, y: of_four(x, y[:5]), "ValueError: class 4 needs two samples"),
        (divided, "ZeroDivisionError"),
        (lambda x, y: torch.linalg.inv(torch.zeros(2, 2))[0, 0], "LinAlgError"),
        (lambda x, y: np.linalg.inv(np.zeros((2, 2)))[0, 0], "LinAlgError: Singular"),
    ],
)
def test_errors_that_may_depend_on_values_are_warnings(metric, said):
    with pytest.warns(UserWarning, match=rf"metrics\['own'\] fails .*{said}"):
        rehearse({"own": metric}, tasks.Classes(), (3, 5), LABELS)


def test_a_metric_without_a_frame_of_its_own_is_not_taken_for_ours():
    with pytest.warns(UserWarning, match="same number of dimensions"):
        rehearse({"own": math.dist}, tasks.Classes(), (3, 5), LABELS)


GROUP = torch.arange(30) % 2 == 0


def in_group(logits, labels):
    return metrics.accuracy(logits[:, GROUP], labels[GROUP])


@pytest.mark.filterwarnings("error")
def test_a_metric_made_for_all_samples_meets_all_of_them():
    rehearse({"group": in_group}, tasks.Classes(), (3, 5), LABELS)


def test_where_samples_are_left_out_their_lack_may_be_the_error(monkeypatch):
    monkeypatch.setattr(rehearsal, "MOST", 3 * 5 * 10)
    with pytest.warns(UserWarning, match=r"metrics\['group'\] fails .*IndexError"):
        rehearse({"group": in_group}, tasks.Classes(), (3, 5), LABELS)


@pytest.mark.parametrize("most", [rehearsal.MOST, 3 * 5 * 10])
@pytest.mark.parametrize(
    ("metric", "said"),
    [
        (lambda x: 0.0, "must be a function of .* TypeError"),
        (lambda x, y: x + "a", "must be a function of .* TypeError"),
        (lambda x, y: x, "must return a scalar"),
        (lambda x, y: "high", "must return a scalar"),
        (lambda x, y: x.zero_().sum(), "must leave logits and labels unchanged"),
        (metrics.rmse, "must be a function of .* ValueError"),
        (lambda x, y: metrics.rmse(x, y), "must be a function of .* ValueError"),
    ],
)
def test_what_can_never_fit_is_refused_by_name(monkeypatch, most, metric, said):
    monkeypatch.setattr(rehearsal, "MOST", most)
    with pytest.raises(ValueError, match=re.escape("metrics['own'] ") + said):
        rehearse({"own": metric}, tasks.Classes(), (3, 5), LABELS)


def test_of_all_samples_other_errors_are_refused():
    with pytest.raises(ValueError, match=r"metrics\['own'\] must .* IndexError"):
        rehearse(
            {"own": lambda x, y: x[:, :, 7].mean()}, tasks.Classes(), (3, 5), LABELS
        )
