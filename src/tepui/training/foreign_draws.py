"""Random draws that no key of training reaches, found by watching a model's passes.

A captured graph repeats what ran on the device. A number that the host drew while it
was captured, from whichever stream, stays what it was then for the rest of the run.
"""

import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from tepui.core import foreach
from tepui.data.arrays import Batch
from tepui.training.passes import MemberPasses

# Two passes of one seed differ by less, even where bfloat16 sums in another order.
ROUNDING = 0.03
DEPTH = 3  # how far inside of an attribute's value generators are looked for


class Stream(NamedTuple):
    """A stream of random numbers with a state that can be put back."""

    name: str
    get: Callable[[], Any]
    set: Callable[[Any], object]


def foreign_draws(member: MemberPasses, batch: Batch) -> str | None:
    """Return in words what a model draws beside the default generator of its device.

    Runs the first part of a batch twice, in training mode and with one seed.
    """
    if any(_has_recurrent_dropout(part) for part in member.module.modules()):
        return "cuDNN draws the dropout of recurrent layers from a state of its own"
    watch = Watch([member.module])
    part = next(member.parts(batch))
    fresh = torch.Generator().manual_seed(0).get_state()
    member.noise_seed = 0
    outputs, on_host = [], False
    with _noting_saved_states() as saved:
        for _ in range(2):
            with _kept(member.buffers):
                member.begin_pass()
                outputs.append(member.unseeded_outputs(part).detach())
            on_host |= not torch.equal(torch.default_generator.get_state(), fresh)
    drawn_from = watch.drawn_from()
    if drawn_from is not None:
        return f"the model draws from {drawn_from} in its forward pass"
    if saved:
        return "the model repeats draws itself (activation checkpointing)"
    if on_host:
        return "the model draws on the CPU in its forward pass"
    if _differ(*outputs):
        return "two forward passes of the model differ although seeded alike"
    return None


class Watch:
    """Tells from which streams outside of training something was drawn since then."""

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        self._before = [(s, _text(s.get())) for s in streams_of(modules)]

    def drawn_from(self) -> str | None:
        """Return the name of the first such stream."""
        changed = (s.name for s, state in self._before if _text(s.get()) != state)
        return next(changed, None)


@contextmanager
def streams_kept(modules: Sequence[nn.Module]) -> Iterator[None]:
    """Put back after the block what streams outside of training had come to."""
    before = [(stream, stream.get()) for stream in streams_of(modules)]
    try:
        yield
    finally:
        for stream, state in before:
            stream.set(state)


def streams_of(modules: Sequence[nn.Module]) -> list[Stream]:
    """Return the global streams beside torch's, and those that modules hold."""
    everywhere = [
        Stream("Python's random", random.getstate, random.setstate),
        Stream("numpy's global state", np.random.get_state, np.random.set_state),
    ]
    held = [
        stream
        for module in modules
        for name, part in module.named_modules()
        for key, value in vars(part).items()
        for stream in _streams_in(f"{name}.{key}".removeprefix("."), value)
    ]
    return everywhere + held


def _streams_in(name: str, value: object, depth: int = DEPTH) -> Iterator[Stream]:
    """Yield the stream that an attribute is, or those that it holds."""
    stream = _stream(f"a generator of its own ({name})", value)
    if stream is not None:
        yield stream
    elif depth > 0:
        for key, item in _items_of(value):
            yield from _streams_in(f"{name}.{key}", item, depth - 1)


def _items_of(value: object) -> Iterable[tuple[object, object]]:
    """Return what a collection or a plain object holds; modules are visited apart."""
    if isinstance(value, nn.Module | Tensor | type):
        return ()
    if isinstance(value, Mapping):
        return value.items()
    if isinstance(value, list | tuple):
        return enumerate(value)
    return getattr(value, "__dict__", {}).items()


def _stream(name: str, value: object) -> Stream | None:
    if isinstance(value, torch.Generator) and not _is_default(value):
        return Stream(name, value.get_state, value.set_state)
    if isinstance(value, random.Random):
        return Stream(name, value.getstate, value.setstate)
    if isinstance(value, np.random.RandomState):
        return Stream(name, value.get_state, value.set_state)
    if isinstance(value, np.random.Generator):
        bits = value.bit_generator
        return Stream(name, lambda: bits.state, partial(setattr, bits, "state"))
    return None


def _is_default(generator: torch.Generator) -> bool:
    defaults = (torch.default_generator, *torch.cuda.default_generators)
    return any(generator is default for default in defaults)


def _text(state: Any) -> str:
    """Return a state in a form that can be compared."""
    return json.dumps(state, default=lambda part: part.tolist())


def _has_recurrent_dropout(part: nn.Module) -> bool:
    if not isinstance(part, nn.RNNBase):
        return False
    return part.num_layers > 1 and part.dropout > 0


@contextmanager
def _noting_saved_states() -> Iterator[list[bool]]:
    """Note whether a state of the device's generator was saved.

    Whoever does so means to draw the same again, which a captured pass cannot.
    """
    original, saved = torch.cuda.get_rng_state, []

    def noting(*arguments: Any, **named: Any) -> Tensor:
        state = original(*arguments, **named)
        saved.append(True)
        return state

    torch.cuda.get_rng_state = noting
    try:
        yield saved
    finally:
        torch.cuda.get_rng_state = original


@contextmanager
def _kept(tensors: list[Tensor]) -> Iterator[None]:
    before = [tensor.clone() for tensor in tensors]
    try:
        yield
    finally:
        foreach.copy_(tensors, before)


def _differ(first: Tensor, second: Tensor) -> bool:
    """Return whether outputs differ by more than rounding."""
    return bool((first - second).norm() > ROUNDING * first.norm())
