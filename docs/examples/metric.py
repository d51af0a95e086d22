"""Mean margin: the label's probability less that of the best other class.

tepui evaluate runs/mine --corruptions none --metrics metric.margin
"""

from torch import Tensor

from tepui.metrics import Chunk, SampleMean


class Margin(SampleMean):
    """The mean margin of samples that come in chunks."""

    def per_sample(self, chunk: Chunk) -> Tensor:
        probs, label = chunk.ensemble_probs("probability"), chunk.labels[:, None]
        best_other = probs.scatter(1, label, -1.0).amax(1)
        return probs.gather(1, label)[:, 0] - best_other


def margin(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the ensemble's mean margin, from -1 to 1; higher is better."""
    return Margin().once(logits, labels)
