r"""One network that has learned what an ensemble predicts.

A student minimizes, over samples that need no labels,

.. math:: - T^2 \sum_c p_c \log \operatorname{softmax}(z / T)_c, \qquad
    p = \frac{1}{M} \sum_m \operatorname{softmax}(z_m / T),

with its logits :math:`z` and those of the ensemble's members :math:`z_m`. Numbers are
learned from the members' mean, by squared error. The ensemble sees samples as they are,
the student as they are augmented.

References:
    Hinton, Vinyals and Dean, Distilling the Knowledge in a Neural Network, 2015.
"""

from typing import Any

import torch
from torch.utils.data import Dataset

from tepui.core.checks import require
from tepui.core.seeding import SEED
from tepui.core.types import check_types
from tepui.data.labels import with_targets
from tepui.ensembles.building import Factory
from tepui.ensembles.ensemble import Ensemble
from tepui.ensembles.outputs import logit_batches
from tepui.methods import DeepEnsemble
from tepui.methods.base import Method
from tepui.tasks.named import settled
from tepui.training.checks import divided
from tepui.training.numerics import place_of
from tepui.training.prepare import to_device
from tepui.training.run import Run
from tepui.training.train import fit

PLAIN = DeepEnsemble()


def distil(
    ensemble: Ensemble,
    dataset: Dataset[Any],
    model: Factory,
    *,
    epochs: int,
    temperature: float = 1.0,
    seed: int = SEED,
    method: Method = PLAIN,
    validation: Dataset[Any] | float | None = None,
    device: str | torch.device | None = None,
    **how: Any,
) -> Run:
    """Train one network on what an ensemble predicts.

    Args:
        ensemble: The teacher.
        dataset: Samples, of which labels are not read, but those held out by
            ``validation``.
        model: Returns the untrained student.
        epochs: Length of the run.
        temperature: What logits of classes are divided by, for teacher and student.
        seed: What all random draws derive from.
        method: How to train; plain descent by default.
        validation: As for :func:`tepui.fit`: labeled data, or a share of ``dataset``.
        device: Where to compute; a GPU if there is one.
        **how: All other arguments of :func:`tepui.fit` but ``loss`` and
            ``unlabeled``, such as ``out`` and ``resume``.

    Returns:
        The run, whose ensemble has the student as its only member.

    Raises:
        ValueError: If an argument breaks its rule, or the ensemble's task has no
            students.

    Example:
        >>> import tepui
        >>> data = tepui.data.Arrays(torch.randn(64, 4), torch.randint(3, (64,)))
        >>> teacher = Ensemble.build(lambda: torch.nn.Linear(4, 3), members=5)
        >>> how = {"epochs": 2, "temperature": 2.0, "progress": "none"}
        >>> run = distil(teacher, data, lambda: torch.nn.Linear(4, 3), **how)
        >>> len(run.ensemble), type(run.ensemble.task).__name__
        (1, 'Classes')
    """
    check_types(distil, locals())
    require(temperature > 0, "temperature", "be positive", temperature)
    if isinstance(validation, float):
        dataset, validation = divided(dataset, validation)
    to_device(ensemble, place_of(device))
    parts = []
    for outputs, _ in logit_batches(ensemble, dataset, precision="float32"):
        task = settled(ensemble.task, tuple(outputs.shape))
        targets, loss = task.lesson(outputs, temperature)
        parts.append(targets.cpu())
    student = Ensemble.build(model, 1, seed, task)
    run = fit(
        student,
        with_targets(dataset, torch.cat(parts)),
        method=method,
        epochs=epochs,
        loss=loss,
        validation=validation,
        device=device,
        **how,
    )
    student.preparation = ensemble.preparation or student.preparation
    return run
