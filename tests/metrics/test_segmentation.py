"""Metrics of pixels against scikit-learn and torchmetrics."""

import pytest
import torch
from hypothesis import given
from sklearn.metrics import jaccard_score

from strategies import close, labeled_ensembles, modest
from tepui.metrics import ECE, Accuracy, MeanIoU, accuracy, ece, mean_iou, pixels


@modest
@given(labeled_ensembles())
def test_mean_iou_is_that_of_scikit_learn(case):
    logits, labels = case
    predicted = logits.softmax(-1).mean(0).argmax(-1)
    occurring = sorted({*labels.tolist(), *predicted.tolist()})
    reference = jaccard_score(
        labels, predicted, labels=occurring, average="macro", zero_division=0
    )
    close(mean_iou(logits, labels), reference)


def test_images_are_streamed_pixel_by_pixel():
    generator = torch.Generator().manual_seed(0)
    outputs = torch.randn(2, 6, 4, 5, 3, generator=generator).double()
    labels = torch.randint(4, (6, 5, 3), generator=generator)
    whole = pixels(outputs, labels)
    # One pixel, found again where it must be: sample 2, row 4, column 1.
    place = (2 * 5 + 4) * 3 + 1
    assert torch.equal(whole[0][:, place], outputs[:, 2, :, 4, 1])
    assert whole[1][place] == labels[2, 4, 1]
    for stream, function in (
        (Accuracy(), accuracy),
        (ECE(), ece),
        (MeanIoU(), mean_iou),
    ):
        for rows in torch.arange(6).split(4):
            stream.update(*pixels(outputs[:, rows], labels[rows]))
        close(stream.compute(), function(*whole))


def test_ignored_pixels_do_not_count():
    outputs = torch.tensor([9.0, 0.0]).view(1, 1, 2, 1).expand(1, 1, 2, 3)
    labels = torch.tensor([[0, 255, 1]])
    logits, answers = pixels(outputs, labels, ignored=255)
    assert logits.shape == (1, 2, 2)
    assert answers.tolist() == [0, 1]
    with pytest.raises(ValueError, match="labels must hold a pixel that is not"):
        pixels(outputs, torch.full((1, 3), 255), ignored=255)


def test_shapes_that_do_not_fit_are_named():
    with pytest.raises(ValueError, match=r"labels must have shape \(5, 8\) to match"):
        pixels(torch.zeros(2, 5, 3, 8), torch.zeros(5, 7).long())
    with pytest.raises(ValueError, match=r"outputs must have shape \(members, samp"):
        pixels(torch.zeros(5, 3), torch.zeros(5).long())
