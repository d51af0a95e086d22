"""Ensembles of weights that another program trained."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch  # noqa: F401 - the example uses it
from torch import Tensor

from tepui.core.checks import require
from tepui.ensembles.building import Factory, factories_for
from tepui.ensembles.checkpoint_files import read_checkpoint
from tepui.ensembles.dialects import as_named_in
from tepui.ensembles.ensemble import Ensemble
from tepui.modules.state import load_tensor_state

Weights = str | Path | Mapping[str, Tensor]


def ensemble_of(
    weights: Sequence[Weights], factory: Factory | Sequence[Factory]
) -> Ensemble:
    """Build an ensemble whose members have weights that are there already.

    A file holds a state dict, saved by ``torch.save`` or as safetensors, alone or in a
    larger dictionary under one of the usual names, such as a Lightning checkpoint; a
    folder is one that Hugging Face's ``save_pretrained`` or Trainer wrote. Prefixes
    that wrappers add (``module.``, ``model.``, ``_orig_mod.``, any other that all
    weights share) are taken off. BatchNorm's counters of batches, which old
    checkpoints lack, may be missing. Nothing in a file is executed.

    Modules in memory need none of this: ``tepui.Ensemble([a.model, b.model])``.

    Args:
        weights: For each member a file, a folder or a state dict.
        factory: Returns a module that the weights fit; or one factory per member, where
            members differ in architecture.

    Returns:
        The ensemble, on the CPU.

    Raises:
        FileNotFoundError: If a file is not there.
        ValueError: If a file holds something other than tensors by name, holds the
            weights twice, or names or shapes do not fit; the first of each are listed.

    Example:
        >>> import tempfile
        >>> from torch import nn
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     files = [Path(folder) / name for name in ("a.pt", "b.pt")]
        ...     for file in files:
        ...         torch.save(nn.Linear(4, 3).state_dict(), file)
        ...     ensemble = ensemble_of(files, lambda: nn.Linear(4, 3))
        >>> ensemble.logits(torch.zeros(5, 4)).shape
        torch.Size([2, 5, 3])
    """
    single = isinstance(weights, str | Path | Mapping)
    require(not single, "weights", "be a list, one per member", type(weights).__name__)
    require(len(weights) > 0, "weights", "name at least one file", list(weights))
    modules = [make() for make in factories_for(factory, len(weights))]
    for number, (module, given) in enumerate(zip(modules, weights, strict=True)):
        where = f"weights[{number}]" if isinstance(given, Mapping) else str(given)
        state = given if isinstance(given, Mapping) else read_checkpoint(given)
        load_tensor_state(module, as_named_in(module, state, where), where)
    return Ensemble(modules)
