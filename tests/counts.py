"""Counts with a Poisson loss, as somebody's own package would hold them.

A network returns the logarithm of each count's rate; members' rates are averaged.
"""

from dataclasses import dataclass, field

from tepui import tasks
from tepui.losses.base import like_outputs, mean_per_sample


@dataclass(frozen=True)
class Poisson:
    """Negative log-likelihood of Poisson distributions, up to a constant."""

    def __call__(self, outputs, targets):
        wanted = like_outputs(targets, outputs)
        return mean_per_sample(outputs.exp() - wanted * outputs)

    @property
    def task(self):
        return Counts()


@dataclass(frozen=True, eq=False, repr=False)
class CountPrediction(tasks.Conforming):
    """How many there will be."""

    task: tasks.Task = field(default_factory=lambda: Counts(), kw_only=True)

    @property
    def mean(self):
        return self._place(self.outputs.exp().mean(0))

    @property
    def aleatoric(self):
        """A Poisson distribution's variance is its rate."""
        return self._variance(self.outputs.exp().mean(0))

    @property
    def epistemic(self):
        return self._variance(self.outputs.exp().var(0, unbiased=False))

    @property
    def total_uncertainty(self):
        return self.aleatoric + self.epistemic

    @property
    def std(self):
        return self.total_uncertainty.sqrt()

    def summary(self):
        return {"mean": " ".join(f"{rate:.3g}" for rate in self.mean.flatten()[:8])}


@dataclass(frozen=True)
class Counts(tasks.NumberTask):
    """Numbers of events: a logarithm of a rate for each."""

    word = "counts"
    losses = (Poisson,)
    predicts = CountPrediction
    conformal = ("normalized", "residual")

    def points(self, outputs):
        return outputs.exp()

    def guess(self, targets, outputs, loss):
        """None: this loss has no zero to measure a share from."""
