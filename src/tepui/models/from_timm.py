"""Models of timm (the extra ``vision``), with the parts that tepui's own models have.

A vision transformer whose class token is its feature (ViT, DeiT, DeiT-3) ends, like
:class:`tepui.models.ViTTiny`, in the perceptron half of its last block, on the class
token alone, and the norm, so that :func:`tepui.models.split_last_layers` can cut inside
that block. Any other model is one layer before its classifier.
"""

import sys
from collections.abc import Mapping
from platform import machine
from typing import Any, final

from torch import Tensor, nn

from tepui.core.checks import require
from tepui.core.extras import extra, known_by_name
from tepui.core.types import check_types
from tepui.models.adapters import LoRA, adapt
from tepui.models.base import Model, positive
from tepui.models.from_huggingface import require_no_code
from tepui.models.preprocess import Preprocess, Resize
from tepui.models.without_torchvision import stand_in_for_torchvision

# Options that read weights from anywhere, which some versions of timm unpickle.
PLACES = ("checkpoint_path", "pretrained_cfg", "pretrained_cfg_overlay")
# Where the extra leaves timm out, since pip would bring a torchvision with it.
WITHOUT_TIMM = "aarch64"
HALVES = ("norm1", "attn", "ls1", "drop_path1", "norm2", "mlp", "ls2", "drop_path2")


def from_timm(
    name: str,
    num_classes: int | None = None,
    in_channels: int = 3,
    pretrained: bool = False,
    resize: int | None = None,
    preprocess: bool = False,
    adapter: LoRA | None = None,
    **options: Any,
) -> Model:
    """Return a model of timm.

    Args:
        name: timm's name for it, such as ``"vit_tiny_patch16_224"``, not an address on
            the hub or a folder.
        num_classes: Number of logits; that of the published model by default.
        in_channels: Channels of the images.
        pretrained: Whether timm loads published weights, from its cache or online.
        resize: Enlarge or shrink images to this size first, such as 224.
        preprocess: Take images in ``[0, 1]`` of any size, as data sets without
            ``normalize`` give them, and do to them what the published model expects
            before anything else: its size, crop, interpolation, mean and standard
            deviation, see :class:`tepui.models.Preprocess`.
        adapter: What is trained beside the classifier; without it, all is.
        options: Further arguments of ``timm.create_model``, none of which reads a file
            or brings code.

    Returns:
        A model with features and a linear classifier. A saved ensemble of such models
        is loaded without a factory.

    Raises:
        ImportError: If timm is not installed.
        ValueError: If timm has no such model or cannot reach its weights, the name or
            an option leads to weights other than timm's own, which could hold code,
            the model does not end in a linear classifier, or ``preprocess`` asks for
            what no layer of ours does.
    """
    check_types(from_timm, locals())
    rule = "be None with preprocess, which has the model's own size"
    require(resize is None or not preprocess, "resize", rule, resize)
    if num_classes is not None:
        options["num_classes"] = num_classes
    body = _created(name, in_channels, options, pretrained)
    first = None
    if preprocess:
        first = _preprocessing(name, body.pretrained_cfg, in_channels, options)
    model = TimmClassifier(name, in_channels, resize, first, options, body)
    if adapter is not None:
        adapt(model, adapter)
    return model


@final
class TimmClassifier(Model):
    """A model of timm, built from its name and options alone.

    Args:
        name: timm's name for it.
        in_channels: Channels of the images.
        resize: Enlarge or shrink images to this size first.
        preprocess: Arguments of :class:`tepui.models.Preprocess`, which comes first.
        options: Further arguments of ``timm.create_model``.
        model: The library's model of these, where it is there already; it is taken
            apart.

    Raises:
        ImportError: If timm is not installed.
        ValueError: If timm has no such model, name or options lead to weights or code
            from elsewhere, or the model does not end in a linear classifier.
    """

    def __init__(
        self,
        name: str,
        in_channels: int,
        resize: int | None,
        preprocess: list[Any] | None,
        options: dict[str, Any],
        model: nn.Module | None = None,
    ) -> None:
        sizes = {"in_channels": in_channels, "resize": resize}
        super().__init__(name=name, **sizes, preprocess=preprocess, options=options)
        body: Any = _created(name, in_channels, options) if model is None else model
        classifier = body.get_classifier()
        rule = "name a model with one linear classifier"
        require(isinstance(classifier, nn.Linear), "name", rule, name)
        body.reset_classifier(0)
        first: list[nn.Module] = [] if resize is None else [Resize(resize)]
        if preprocess is not None:
            first = [Preprocess(*preprocess)]
        self.layers = nn.Sequential(*first, *_parts(body))
        self.classifier = classifier


def _created(
    name: str, channels: int, options: Mapping[str, Any], weights: bool = False
) -> Any:
    """Return a model of timm's own list, with options that bring no code."""
    classes = options.get("num_classes")
    positive(in_channels=channels, num_classes=1 if classes is None else classes)
    rule = "be in timm's own list of models, since other weights could contain code"
    require(not {*":/"} & {*name}, "name", rule, name)
    for option in PLACES:
        rule = "be left out, since weights from elsewhere could contain code"
        require(option not in options, option, rule, options.get(option))
    require_no_code(options)
    library = _library()
    with known_by_name("name", "be a model of timm's", name, OSError, RuntimeError):
        return library.create_model(
            name, pretrained=weights, in_chans=channels, **options
        )


def _library() -> Any:
    """Return timm, which is imported without torchvision where there is none."""
    if "timm" in sys.modules:
        return extra("timm", "vision", timm_alone())
    with stand_in_for_torchvision():
        return extra("timm", "vision", timm_alone())


def timm_alone() -> str | None:
    """Return what installs timm where the extra cannot."""
    return "pip install --no-deps timm" if machine() == WITHOUT_TIMM else None


def _preprocessing(
    name: str, published: Mapping[str, Any], channels: int, options: Mapping[str, Any]
) -> list[Any]:
    """Return the arguments of what a published model expects to be done to images."""
    _, height, width = published["input_size"]
    rule = "name a model of square images that are cropped at their center"
    mode = published.get("crop_mode", "center")
    # Cropped where the published model squashes: the same for square images.
    fits = height == width and mode in ("center", "squash")
    require(fits, "name", rule, f"{name} ({height} by {width}, {mode})")
    rule = f"be {len(published['mean'])} with preprocess, as the model was published"
    require(channels == len(published["mean"]), "in_channels", rule, channels)
    return [
        options.get("img_size") or height,
        published["crop_pct"],
        list(published["mean"]),
        list(published["std"]),
        published["interpolation"],
    ]


def _parts(model: Any) -> list[nn.Module]:
    """Return the layers a model can be cut between; their composition is the model."""
    if not _ends_in_a_class_token(model):
        return [model]
    block, norm = model.blocks[-1], model.norm
    model.blocks[-1] = _Half(block.norm1, block.attn, block.ls1, block.drop_path1)
    model.norm = nn.Identity()
    perceptron = _Half(block.norm2, block.mlp, block.ls2, block.drop_path2)
    return [model, perceptron, norm]


def _ends_in_a_class_token(model: Any) -> bool:
    blocks = getattr(model, "blocks", None)
    if not isinstance(blocks, nn.Sequential) or not len(blocks):
        return False
    return (
        all(hasattr(blocks[-1], part) for part in HALVES)
        and getattr(model, "global_pool", None) == "token"
        and isinstance(getattr(model, "norm", None), nn.Module)
        and isinstance(getattr(model, "fc_norm", None), nn.Identity)
    )


class _Half(nn.Module):
    """Half a block: the norm, the branch, its scale and its stochastic depth."""

    def __init__(
        self, norm: nn.Module, branch: nn.Module, scale: nn.Module, drop: nn.Module
    ) -> None:
        super().__init__()
        self.norm, self.branch, self.scale, self.drop = norm, branch, scale, drop

    def forward(self, x: Tensor, *others: Any, **named: Any) -> Tensor:
        branch = self.branch(self.norm(x), *others, **named)
        total: Tensor = x + self.drop(self.scale(branch))
        return total
