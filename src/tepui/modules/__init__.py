"""What can be done to any module: run, save, prune it, cache its features."""

from tepui.modules.features import cached_features
from tepui.modules.pruning import Prune, sparsity_of
from tepui.modules.running import undisturbed

__all__ = ["Prune", "cached_features", "sparsity_of", "undisturbed"]
