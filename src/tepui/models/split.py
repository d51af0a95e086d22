"""Cutting a model into a frozen extractor and a tail that is trained.

Members of a shallow ensemble share a frozen extractor and train only their own copy of
the last layers. The features do not change, so they can be computed once, see
:func:`tepui.cached_features`.
"""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Self, final

import torch
from torch import nn

from tepui.core.checks import require
from tepui.core.types import check_types
from tepui.models.base import Composed, CutFrom, Model, composed


@final
class Frozen(nn.Module):
    """Layers that no training changes: no gradients, always in eval mode.

    Args:
        layers: Applied in order; the first may take several or named inputs.
        cut_from: What they were cut from, if that is known.

    Example:
        >>> frozen = Frozen([nn.BatchNorm1d(3)])
        >>> frozen.train().layers[0].training
        False
    """

    def __init__(
        self, layers: list[nn.Module], cut_from: CutFrom | None = None
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.cut_from = cut_from
        self.requires_grad_(False)
        self.eval()

    def train(self, mode: bool = True) -> Self:
        """Stay in eval mode.

        Args:
            mode: Has no effect.

        Returns:
            The module itself.
        """
        return super().train(False)

    @torch.no_grad()
    def forward(self, *inputs: Any, **named: Any) -> Any:
        """Return the output of the last layer."""
        return composed(self.layers, *inputs, **named)


@final
class OnFeatures(nn.Module):
    """A head on a frozen extractor: a member for raw inputs.

    Args:
        extractor: Computes what the head sees; members may share it.
        head: The part that is trained.
    """

    def __init__(self, extractor: Frozen, head: nn.Module) -> None:
        super().__init__()
        self.extractor = extractor
        self.head = head

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """Return the head's output on the features, in the type that it computes in."""
        features = self.extractor(*inputs, **named)
        weight = next(self.head.parameters(), None)
        if weight is not None and features.is_floating_point():
            features = features.to(weight.dtype)
        return self.head(features)


def frozen(extractor: nn.Module) -> Frozen:
    """Freeze an extractor in place, where its features depend on the sample alone.

    Example:
        >>> frozen(nn.BatchNorm1d(3))
        Traceback (most recent call last):
        ValueError: extractor must be in eval mode where it has BatchNorm (call extractor.eval() if its running statistics are those to use), got 'train mode in BatchNorm1d'
    """  # noqa: E501 - a doctest must show the whole message
    for name, part in extractor.named_modules():
        if not isinstance(part, nn.modules.batchnorm._BatchNorm):
            continue
        where = f"{type(part).__name__} {name}".strip()
        rule = (
            "be in eval mode where it has BatchNorm (call extractor.eval() if its "
            "running statistics are those to use)"
        )
        require(not part.training, "extractor", rule, f"train mode in {where}")
        rule = "keep running statistics where it has BatchNorm"
        kept = part.running_mean is not None
        require(kept, "extractor", rule, f"none in {where}")
    return extractor if isinstance(extractor, Frozen) else Frozen([extractor])


@dataclass(frozen=True, eq=False)
class Split:
    """A model in two parts.

    Attributes:
        extractor: The frozen part, one for all members.
        pattern: What the tails are copied from; it is never trained itself.
    """

    extractor: Frozen
    pattern: Model

    def tail(self, fresh: bool = False) -> Model:
        """Return a new tail: a member for precomputed features.

        Args:
            fresh: Draw its weights anew instead of copying them, in every layer that
                has ``reset_parameters``.

        Returns:
            A trainable model whose inputs are the extractor's outputs.
        """
        tail = deepcopy(self.pattern)
        for part in tail.modules():
            reset = getattr(part, "reset_parameters", None)
            if fresh and reset is not None:
                reset()
        return tail

    def whole(self, fresh: bool = False) -> Model:
        """Return the extractor, shared, and a new tail: a member for raw inputs.

        Args:
            fresh: Draw the tail's weights anew instead of copying them.

        Returns:
            A model whose tail alone is trained.
        """
        tail = self.tail(fresh)
        return Composed([self.extractor, *tail.layers], tail.classifier)


def split_last_layers(model: nn.Module, layers: int = 1) -> Split:
    """Cut a model before its last layers.

    Only layers with weights count, and the classifier is the last. In a vision
    transformer half a block counts as one: of ``ViTTiny`` three are the perceptron half
    of the last block, the LayerNorm and the classifier, while its attention is frozen.

    Args:
        model: A model of ``tepui.models``, or an ``nn.Sequential`` that ends in a
            linear layer. It is left as it was.
        layers: How many layers are trained.

    Returns:
        Copies of both parts; together they compute what the model does in eval mode.

    Raises:
        ValueError: If the model cannot be cut, or cannot be cut there.

    Example:
        >>> from tepui.models import MLP
        >>> split = split_last_layers(MLP(in_features=4, hidden=(8, 6)), layers=2)
        >>> split.extractor(torch.zeros(2, 4)).shape, split.tail()
        (torch.Size([2, 8]), Composed(
          (layers): Sequential(
            (0): Linear(in_features=8, out_features=6, bias=True)
            (1): ReLU()
          )
          (classifier): Linear(in_features=6, out_features=10, bias=True)
        ))
    """
    check_types(split_last_layers, locals())
    modules = _modules(model)
    heavy = [n for n, module in enumerate(modules) if [*module.parameters()]]
    rule = f"lie in [1, {len(heavy) - 1}]"
    require(1 <= layers < len(heavy), "layers", rule, layers)
    cut = heavy[-layers]
    front, rest, last = deepcopy((modules[:cut], modules[cut:-1], modules[-1]))
    assert isinstance(last, nn.Linear)
    cut_from = None
    if isinstance(model, Model):
        cut_from = CutFrom(type(model), deepcopy(model.config), layers)
    tail = Composed(rest, last, cut_from).requires_grad_(True)
    return Split(Frozen(front, cut_from), tail)


def without_classifier(model: nn.Module, inputs: Any) -> nn.Module:
    """Return what any module computes before the linear layer that gives its outputs.

    Models of ``tepui.models`` are better cut by :func:`split_last_layers`, which
    :func:`tepui.load` can rebuild.

    Args:
        model: The module; it is left as it was.
        inputs: A batch for it: a tensor, or a mapping of them.

    Returns:
        A copy in eval mode, whose outputs are what that layer was given.

    Raises:
        ValueError: If the outputs are not those of one linear layer, or the model does
            not take the inputs.

    Example:
        >>> class Net(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.body, self.head = nn.Linear(4, 8), nn.Linear(8, 3)
        ...     def forward(self, x):
        ...         return self.head(torch.relu(self.body(x)))
        >>> without_classifier(Net(), torch.zeros(2, 4))(torch.zeros(2, 4)).shape
        torch.Size([2, 8])
    """
    whole = deepcopy(model).eval()
    named = whole.named_modules()
    linear = [(path, part) for path, part in named if isinstance(part, nn.Linear)]
    with torch.no_grad():
        try:
            outputs = _called(whole, inputs)
        except (RuntimeError, TypeError, AttributeError) as error:
            what = f"must be a batch that the model takes ({error})"
            raise ValueError(f"inputs {what}, got {type(inputs).__name__}") from error
        for path, layer in reversed(linear):
            front = deepcopy(whole)
            owner, _, attribute = path.rpartition(".")
            setattr(front.get_submodule(owner), attribute, nn.Identity())
            if _gives(front, layer, inputs, outputs):
                return front
    rule = "end in a linear layer that gives its outputs"
    raise ValueError(f"model must {rule}, got {type(model).__name__}")


def _called(module: nn.Module, inputs: Any) -> Any:
    return module(**inputs) if isinstance(inputs, Mapping) else module(inputs)


def _gives(front: nn.Module, layer: nn.Linear, inputs: Any, outputs: Any) -> bool:
    """Return whether a layer makes of a module's features its outputs."""
    try:
        features = _called(front, inputs)
        return torch.allclose(layer(features), outputs, rtol=1e-4, atol=1e-5)
    except (RuntimeError, TypeError):  # of another shape, or no tensors
        return False


def _modules(model: nn.Module) -> list[nn.Module]:
    """Return the layers of a model in order, the classifier last."""
    if isinstance(model, Model):
        return [*model.layers, model.classifier]
    rule = "be one of tepui.models or an nn.Sequential that ends in a linear layer"
    require(isinstance(model, nn.Sequential), "model", rule, type(model).__name__)
    modules = list(model.children())
    require(len(modules) > 0, "model", rule, "an empty nn.Sequential")
    last = type(modules[-1]).__name__
    require(isinstance(modules[-1], nn.Linear), "model", rule, f"{last} at its end")
    return modules
