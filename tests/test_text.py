"""The text path: dict batches through training, scores and evaluation."""

import pytest
import torch

import tepui
from data.mrpc_files import NOUNS
from tepui import sharpness
from tepui.data import Arrays, Tokenizer
from tepui.methods import SharpBalance
from tepui.models import Albert
from training.cases import one_thread

single = pytest.fixture(autouse=True)(one_thread)


def paraphrases(samples, first=0):
    """Invented pairs as tokens; some nouns make a pair one of paraphrases."""
    nouns = [NOUNS[(first + row) % len(NOUNS)] for row in range(samples)]
    tokenizer = Tokenizer(("the", "it", "came", *NOUNS), buckets=8)
    pairs = [
        (f"The {noun} came in {row}.", f"It came{' again' * (row % 3)}.")
        for row, noun in enumerate(nouns)
    ]
    inputs = tokenizer.batch(pairs)
    labels = [int(NOUNS.index(noun) % 3 > 0) for noun in nouns]
    return Arrays(inputs, torch.tensor(labels))


def model():
    return Albert(
        vocabulary=len(NOUNS) + 14, embedding=16, width=16, depth=2, heads=2, length=32
    )


@pytest.mark.slow
def test_sharpbalance_learns_pairs_and_is_evaluated(tmp_path):
    train, test = paraphrases(180), paraphrases(45, first=180)
    ensemble = tepui.Ensemble.build(model, members=2, seed=3)
    how = {"optimizer": tepui.AdamW(lr=1e-2), "device": "cpu", "progress": "none"}
    run = tepui.fit(
        ensemble,
        train,
        method=SharpBalance(rho=0.02, before="sam"),
        epochs=8,
        batch_size=24,
        out=tmp_path,
        **how,
    )
    assert max(run.history[-1].loss) < 0.7 * min(run.history[0].loss)
    report = tepui.evaluate(ensemble, test)
    majority = float(test.targets.float().mean())
    assert report.clean.accuracy > majority + 0.2
    loaded = tepui.load(tmp_path)
    assert torch.equal(loaded.logits(test.inputs), ensemble.logits(test.inputs))
    assert loaded.predict(test.inputs).probs.shape == (45, 2)


INPUT_MEASURES = {"input_curvature", "sample_input_curvature"}


@pytest.mark.parametrize("name", sorted(INPUT_MEASURES))
def test_curvature_around_inputs_needs_floating_ones(name):
    with pytest.raises(ValueError, match="dataset must have floating inputs"):
        getattr(sharpness, name)(model(), paraphrases(4))


def test_corrupting_text_is_refused():
    with pytest.raises(ValueError, match="dataset must hold images in one tensor"):
        tepui.data.corrupted(paraphrases(4))


def test_augmenting_text_is_refused():
    crop = tepui.data.RandomCrop(padding=1)
    with pytest.raises(ValueError, match="augment must be for texts, as the inputs"):
        tepui.fit(
            tepui.Ensemble.build(model, members=1),
            paraphrases(4),
            method=tepui.methods.DeepEnsemble(),
            epochs=1,
            augment=[crop],
            device="cpu",
            progress="none",
        )


def test_tokens_beyond_the_vocabulary_are_named():
    ensemble = tepui.Ensemble.build(lambda: Albert(vocabulary=5), members=1)
    message = r"model must accept samples of shape \(\d+,\), .* out of range"
    with pytest.raises(ValueError, match=message):
        tepui.fit(
            ensemble,
            paraphrases(4),
            method=tepui.methods.DeepEnsemble(),
            epochs=1,
            device="cpu",
            progress="none",
        )


def test_padding_costs_nothing_but_time():
    member, samples = model().eval(), paraphrases(4)
    wider = {
        name: torch.nn.functional.pad(value, (0, 3))
        for name, value in samples.inputs.items()
    }
    torch.testing.assert_close(member(**wider), member(**samples.inputs))
