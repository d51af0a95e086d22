"""Tensors of several modules: frozen ones are shared, trained ones belong to one.

Members that were built on one pretrained body hold it once: a parameter that is not
trained and has the same bits in several modules becomes one object, which ``.to``,
copies, and files of tensors keep one. A parameter that is trained belongs to one
module, since two optimizers would move it twice. Buffers are never shared: forward
passes may change them.
"""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tepui.models.split import Frozen


@dataclass(frozen=True)
class Size:
    """How many bytes an ensemble takes.

    Attributes:
        trained: Bytes that each member trains.
        own: Bytes of each member's buffers and of frozen tensors that only it has.
        shared: Bytes of what several members share, once.
    """

    trained: tuple[int, ...]
    own: tuple[int, ...]
    shared: int

    @property
    def total(self) -> int:
        """All bytes."""
        return sum(self.trained) + sum(self.own) + self.shared

    def __str__(self) -> str:
        return (
            f"{_mebibytes(max(self.trained))} trained per member, "
            f"{_mebibytes(self.shared)} shared, {_mebibytes(self.total)} in all"
        )


def share_frozen(modules: Sequence[nn.Module]) -> None:
    """Let modules hold frozen parameters of one name and the same bits once.

    Example:
        >>> body = nn.Linear(2, 3).requires_grad_(False)
        >>> other = nn.Linear(2, 3).requires_grad_(False)
        >>> _ = other.load_state_dict(body.state_dict())
        >>> share_frozen([body, other])
        >>> other.weight is body.weight
        True
    """
    known: dict[str, list[nn.Parameter]] = {}
    for module in modules:
        shared: dict[int, nn.Parameter] = {}
        for name, parameter in module.named_parameters():
            if parameter.requires_grad:
                continue
            alike = known.setdefault(name, [])
            found = next((p for p in alike if _same_bits(p, parameter)), None)
            if found is None:
                alike.append(parameter)
            elif found is not parameter:
                shared[id(parameter)] = found
        _replace(module, shared)


def apart(modules: Sequence[nn.Module]) -> list[nn.Module]:
    """Return modules that share nothing that training changes.

    One that holds a trained parameter or a buffer of an earlier one is copied, but for
    its frozen parameters.

    Example:
        >>> body = nn.Linear(2, 3)
        >>> first, second = apart([nn.Sequential(body), nn.Sequential(body)])
        >>> second[0].weight is first[0].weight
        False
    """
    owned: set[int] = set()
    found = []
    for module in modules:
        bodies = [part for part in module.modules() if isinstance(part, Frozen)]
        kept = {id(tensor) for body in bodies for tensor in body.buffers()}
        frozen = [p for p in module.parameters() if not p.requires_grad]
        changing = {
            id(tensor)
            for tensor in (*module.parameters(), *module.buffers())
            if tensor.requires_grad or not isinstance(tensor, nn.Parameter)
        } - kept
        alone = {id(it): it for it in (*frozen, *bodies)}
        found.append(deepcopy(module, alone) if owned & changing else module)
        owned |= changing
    return found


def share_as_stored(
    modules: Sequence[nn.Module], states: Sequence[Mapping[str, Tensor]]
) -> None:
    """Let modules share, frozen, the parameters that their states hold once.

    Args:
        modules: Modules that have loaded the states.
        states: For each module its state; a tensor that several hold is one object.
    """
    first: dict[int, tuple[int, nn.Parameter]] = {}
    for number, (module, state) in enumerate(zip(modules, states, strict=True)):
        shared: dict[int, nn.Parameter] = {}
        for name, parameter in module.named_parameters():
            owner, found = first.setdefault(id(state[name]), (number, parameter))
            if owner != number:
                found.requires_grad_(False)
                shared[id(parameter)] = found
        _replace(module, shared)


def frozen_names(module: nn.Module) -> frozenset[str]:
    """Return which entries of a module's state training leaves as they are.

    Those are parameters that are not trained, but for tables of embeddings that passes
    shorten to ``max_norm``, and the buffers of a frozen extractor.

    Example:
        >>> module = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
        >>> _ = module[0].requires_grad_(False)
        >>> sorted(frozen_names(module))
        ['0.bias', '0.weight']
    """
    kinds = (nn.Embedding, nn.EmbeddingBag)
    tables = [part for part in module.modules() if isinstance(part, kinds)]
    shortened = {id(table.weight) for table in tables if table.max_norm is not None}
    named = dict(module.named_parameters(remove_duplicate=False))
    names = {name for name, parameter in named.items() if not parameter.requires_grad}
    for path, part in module.named_modules():
        if isinstance(part, Frozen):
            names |= {f"{path}.{name}".removeprefix(".") for name in part.state_dict()}
    changed = (name for name, p in named.items() if id(p) in shortened)
    return frozenset(names.difference(changed))


def size_of(members: Sequence[nn.Module]) -> Size:
    """Return how many bytes members take, and what several of them share."""
    held = [dict(_tensors(member)) for member in members]
    common: dict[int, Tensor] = {}
    for place, tensors in enumerate(held):
        for others in held[place + 1 :]:
            common |= {key: tensors[key] for key in tensors.keys() & others.keys()}
    alone = [[t for k, t in each.items() if k not in common] for each in held]
    return Size(
        tuple(sum(t.nbytes for t in each if t.requires_grad) for each in alone),
        tuple(sum(t.nbytes for t in each if not t.requires_grad) for each in alone),
        sum(tensor.nbytes for tensor in common.values()),
    )


def _tensors(module: nn.Module) -> Iterator[tuple[int, Tensor]]:
    for tensor in (*module.parameters(), *module.buffers()):
        yield id(tensor), tensor


def _replace(module: nn.Module, others: Mapping[int, nn.Parameter]) -> None:
    """Put other parameters in the places of some, ties included."""
    for part in module.modules() if others else ():
        for name, parameter in [*part._parameters.items()]:
            if id(parameter) in others:
                setattr(part, name, others[id(parameter)])


def _same_bits(first: Tensor, second: Tensor) -> bool:
    """Return whether two tensors are of one kind and agree in every bit."""
    if first is second:
        return True
    kinds = [(t.shape, t.dtype, t.device, t.stride()) for t in (first, second)]
    if kinds[0] != kinds[1]:
        return False
    if first.data_ptr() == second.data_ptr():
        return True
    one, other = (
        t.detach().contiguous().flatten().view(torch.uint8) for t in (first, second)
    )
    return torch.equal(one, other)


def _mebibytes(number: int) -> str:
    return f"{number / 2**20:.2f} MiB"
