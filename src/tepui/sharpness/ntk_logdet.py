r"""The log-determinant of the neural tangent kernel on small batches.

.. math::
    K_{ij} = \big\langle \nabla_\theta \textstyle\sum_c f_c(x_i), \,
    \nabla_\theta \sum_c f_c(x_j) \big\rangle, \qquad \log \det K,

averaged over batches. It tells how differently the model's outputs at different inputs
depend on the weights, and does not use labels.

Differs from the released code: all trainable parameters count, not only those called
``weight``.

References:
    Jacot, Gabriel and Hongler, Neural Tangent Kernel, NeurIPS 2018.
"""

import torch
from torch import Tensor, nn
from torch.func import grad, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from tepui.core.types import check_types
from tepui.data.arrays import Batch, Inputs
from tepui.losses import Loss, cross_entropy
from tepui.modules.running import one_sample, undisturbed
from tepui.sharpness.measurement import Data, Measurement, mean_of, select
from tepui.sharpness.weights import WeightVector


def ntk_logdet(
    model: nn.Module,
    dataset: Data,
    *,
    loss: Loss = cross_entropy,
    num_samples: int | None = 500,
    batch_size: int = 5,
    generator: torch.Generator | None = None,
) -> Measurement:
    """Return the mean log-determinant of the neural tangent kernel of a batch.

    Args:
        model: Any module; left unchanged.
        dataset: A data set.
        loss: Only tells which labels fit; the kernel is that of the outputs.
        num_samples: How many samples in total; None takes all.
        batch_size: Samples per kernel: the value depends on it. Memory grows with
            samples times parameters.
        generator: Draws the samples; None always draws the same ones.

    Returns:
        A value, with its standard error over batches; minus infinity where two
        samples of a batch are indistinguishable.

    Example:
        >>> from tepui.data import Arrays
        >>> data = Arrays(2 * torch.eye(3), torch.tensor([0, 0, 0]))
        >>> model = nn.Linear(3, 1, bias=False)
        >>> measured = ntk_logdet(model, data, batch_size=3)  # log det of 4 I
        >>> round(measured.value, 4)
        4.1589
    """
    check_types(ntk_logdet, locals())
    batches = select(
        model, dataset, loss, batch_size, num_samples, generator, mixed=True
    )
    weights = WeightVector(model, loss)
    free = weights.scale()

    def summed(vector: Tensor, inputs: Inputs) -> Tensor:
        nothing = torch.zeros(1, device=vector.device)
        sample = Batch(one_sample(inputs), nothing, nothing)
        return weights.outputs(vector, sample).sum()

    gradients = vmap(grad(summed), in_dims=(None, 0))

    def logdet(batch: Batch) -> Tensor:
        rows = (free * gradients(weights.vector, batch.inputs)).double()
        logarithm: Tensor = torch.linalg.slogdet(rows @ rows.T).logabsdet
        return logarithm

    with undisturbed(model), sdpa_kernel(SDPBackend.MATH):
        values = torch.stack([logdet(batch).detach() for batch in batches])
    about = {"measure": "ntk_logdet", "masked": weights.masked}
    return mean_of(values, about | batches.sizes)
