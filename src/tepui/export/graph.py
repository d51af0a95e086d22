"""What is exported: from raw inputs to what an ensemble says of them."""

from copy import deepcopy
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from tepui.data.arrays import Inputs
from tepui.ensembles.ensemble import Ensemble
from tepui.ensembles.inputs import prepared_inputs
from tepui.metrics import Calibration, Conformity, Rule
from tepui.tasks import Prediction

COVERAGE = 0.9


class Graph(nn.Module):
    """An ensemble as a function of raw inputs that returns tensors by name.

    Args:
        ensemble: Copied to the CPU, in eval mode.
        raw: Whether numbers that are not bytes are to be prepared too.
        rule: How members are combined.
        coverage: Of intervals, unless held-out data gave the ensemble its own.
    """

    def __init__(
        self, ensemble: Ensemble, *, raw: bool, rule: Rule, coverage: float
    ) -> None:
        super().__init__()
        self.ensemble = _on_cpu(ensemble)
        self.raw, self.rule, self.coverage = raw, rule, coverage
        self.eval()

    def forward(self, inputs: Inputs) -> dict[str, Tensor]:
        """Return what the task has to say of each sample."""
        seen = prepared_inputs(inputs, self.ensemble.preparation, self.raw)
        outputs = self.ensemble(seen)
        return self.ensemble.predicted(outputs, self.rule).exported(self.coverage)

    def predict(self, inputs: Inputs) -> Prediction:
        """Return what the ensemble itself predicts, all checks included."""
        return self.ensemble.predict(inputs, raw=self.raw, rule=self.rule)


def _on_cpu(ensemble: Ensemble) -> Ensemble:
    """Return a copy on the CPU, with what held-out data gave it."""
    copied = deepcopy(ensemble).cpu()
    calibration, conformity = copied.calibration, copied.conformity
    if calibration is not None:
        copied.calibration = replace(calibration, **_tensors_of(calibration))
    if conformity is not None:
        copied.conformity = replace(conformity, **_tensors_of(conformity))
    return copied


def _tensors_of(fitted: Calibration | Conformity) -> dict[str, Any]:
    return {name: tensor.cpu() for name, tensor in fitted.tensors().items()}
