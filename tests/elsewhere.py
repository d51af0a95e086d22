"""Exported graphs in a process that knows neither tepui nor torch."""

import subprocess
import sys

import numpy as np

SCRIPT = """
import sys
import numpy
import onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
given = numpy.load(sys.argv[2])
names = [output.name for output in session.get_outputs()]
found = {}
for batch in sorted({key.split("/")[0] for key in given}):
    own = [key for key in given if key.startswith(batch + "/")]
    feed = {key.split("/")[1]: given[key] for key in own}
    for name, answer in zip(names, session.run(names, feed), strict=True):
        found[f"{batch}/{name}"] = answer
assert not {"tepui", "torch"} & set(sys.modules)
numpy.savez(sys.argv[3], **found)
"""


def answers_elsewhere(file, batches, folder):
    """Return onnxruntime's answers for several batches, each a dict of arrays."""
    named = [b if isinstance(b, dict) else {"inputs": b} for b in batches]
    given = {
        f"{number}/{name}": np.asarray(array)
        for number, batch in enumerate(named)
        for name, array in batch.items()
    }
    np.savez(folder / "given.npz", **given)
    paths = [str(file), str(folder / "given.npz"), str(folder / "found.npz")]
    subprocess.run([sys.executable, "-c", SCRIPT, *paths], check=True, timeout=300)
    found = np.load(folder / "found.npz")
    return [
        {k.split("/")[1]: found[k] for k in found if k.startswith(f"{number}/")}
        for number in range(len(named))
    ]


def fields_of(prediction):
    """Return what a graph of the same ensemble answers, by name."""
    if hasattr(prediction, "probs"):
        names = ("probs", "labels", "confidence", "epistemic")
        fields = {name: getattr(prediction, name) for name in names}
        sets = {"sets": prediction.sets} if prediction.conformity else {}
        return {**fields, "ood_score": prediction.ood_score(), **sets}
    fields = {name: getattr(prediction, name) for name in ("mean", "std")}
    fields["epistemic_variance"] = prediction.epistemic
    lower, upper = (
        prediction.conformal_interval
        if prediction.conformity
        else prediction.interval(0.9)
    )
    return {**fields, "lower": lower, "upper": upper}


def check_same(answers, prediction):
    """Check that labels are equal, and all else to 1e-5 of the largest number."""
    expected = fields_of(prediction)
    assert answers.keys() == expected.keys()
    for name, wanted in expected.items():
        if name in ("labels", "sets"):
            assert answers[name].tolist() == wanted.tolist()
        else:
            atol = 1e-5 * max(1.0, float(wanted.abs().max()))
            np.testing.assert_allclose(answers[name], wanted.numpy(), rtol=0, atol=atol)


def check_elsewhere(file, inputs, prediction, folder):
    """Check that onnxruntime alone answers what an ensemble predicted."""
    (answers,) = answers_elsewhere(file, [inputs], folder)
    check_same(answers, prediction)
