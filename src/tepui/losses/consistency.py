r"""How far the probabilities of several views of a sample lie apart.

With :math:`\bar p` the mean of the views' probabilities, not below :math:`10^{-7}`,

.. math:: \mathrm{JS} = \frac{1}{V} \sum_v \mathrm{KL}(p_v \Vert \bar p),

as AugMix's released code takes it of a clean and two augmented views.

References:
    Hendrycks et al., AugMix: A Simple Data Processing Method to Improve Robustness and
    Uncertainty, ICLR 2020.
"""

from torch import Tensor

from tepui.losses.base import mean_per_sample

SMALLEST = 1e-7


def jensen_shannon(views: Tensor) -> Tensor:
    """Return the Jensen–Shannon divergence between views, for each sample.

    Args:
        views: Logits of shape ``(views, samples, classes, …)``.

    Returns:
        Divergences of shape ``(samples,)``, over pixels their mean.

    Example:
        >>> import torch
        >>> logits = torch.tensor([[[50.0, 0.0]], [[0.0, 50.0]]])
        >>> jensen_shannon(logits).exp()
        tensor([2.])
    """
    log_probs = views.log_softmax(2)
    probs = log_probs.exp()
    middle = probs.mean(0).clamp(min=SMALLEST).log()
    return mean_per_sample((probs * (log_probs - middle)).sum(2).mean(0))
