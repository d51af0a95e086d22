"""The two kinds of file a graph is written as, and how each is run to compare it."""

import io
import json
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from typing import Any

import torch
from torch import Tensor

from tepui.core.checks import require
from tepui.core.extras import extra
from tepui.data.arrays import Inputs
from tepui.export.graph import Graph

Run = Callable[[Inputs], dict[str, Tensor]]
"""Runs what a file holds."""

INPUT = "inputs"  # the name of an input that is no mapping
OUTSIDE = "output."  # before the names of outputs, until no value inside has them
DOCUMENT = "tepui.json"
_LARGEST = 2**31 - 1  # bytes in one message of protobuf


def as_torch(
    program: torch.export.ExportedProgram,
    names: list[str],
    about: Mapping[str, str],
) -> tuple[bytes, Run]:
    """Return the bytes of a ``.pt2`` file, and what loads and runs them."""
    buffer = io.BytesIO()
    with quiet():
        torch.export.save(program, buffer, extra_files={DOCUMENT: json.dumps(about)})
        content = buffer.getvalue()
        module = torch.export.load(io.BytesIO(content)).module()

    def run(inputs: Inputs) -> dict[str, Tensor]:
        with torch.no_grad():
            return dict(module(inputs))

    return content, run


def as_onnx(
    program: torch.export.ExportedProgram,
    names: list[str],
    about: Mapping[str, str],
) -> tuple[bytes, Run]:
    """Return the bytes of a ``.onnx`` file, and what loads and runs them."""
    for library in ("onnx", "onnxscript"):
        extra(library, "export")
    runtime = extra("onnxruntime", "export")
    size = sum(tensor.nbytes for tensor in program.state_dict.values())
    rule = "hold less than 2 GiB of weights for ONNX (torch has no such limit)"
    require(size < _LARGEST, "ensemble", rule, f"{size} bytes")
    inputs = _input_names(program)
    model = _onnx_model(program, inputs, names)
    _name_outputs(model, names)
    _name_axes(model)
    _forget_sources(model)
    for name, text in about.items():
        model.metadata_props.add(key=name, value=text)
    content = model.SerializeToString()
    session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])

    def run(given: Inputs) -> dict[str, Tensor]:
        named = {INPUT: given} if isinstance(given, Tensor) else given
        feed = {name: tensor.numpy() for name, tensor in named.items()}
        answers = map(torch.from_numpy, session.run(names, feed))
        return dict(zip(names, answers, strict=True))

    return content, run


def _input_names(program: torch.export.ExportedProgram) -> list[str]:
    """Return the names of inputs in the order of the graph."""
    (given,) = program.example_inputs[0]
    return [INPUT] if isinstance(given, Tensor) else list(given)


def _onnx_model(
    program: torch.export.ExportedProgram, inputs: list[str], outputs: list[str]
) -> Any:
    try:
        with quiet():
            exported = torch.onnx.export(
                program,
                dynamo=True,
                verbose=False,
                input_names=inputs,
                output_names=[f"{OUTSIDE}{name}" for name in outputs],
            )
    except Exception as error:
        rule = "consist of operations that ONNX has (torch has more)"
        raise refused(rule, error) from error
    assert exported is not None
    return exported.model_proto


def _name_outputs(model: Any, names: Sequence[str]) -> None:
    """Give outputs their names, which values inside of the graph may have, too."""
    inside = {name: f"{name}.inside" for name in names}
    renamed = inside | {f"{OUTSIDE}{name}": name for name in names}
    for node in model.graph.node:
        for values in (node.input, node.output):
            values[:] = [renamed.get(name, name) for name in values]
    for value in (*model.graph.output, *model.graph.initializer):
        value.name = renamed.get(value.name, value.name)


def _name_axes(model: Any) -> None:
    """Name what may have any length ``batch`` and ``tokens``."""
    named: dict[str, str] = {}
    for value in model.graph.input:
        for axis, size in enumerate(value.type.tensor_type.shape.dim):
            if size.dim_param:
                named.setdefault(size.dim_param, ("batch", "tokens")[axis])
    for value in (*model.graph.input, *model.graph.output):
        for size in value.type.tensor_type.shape.dim:
            if size.dim_param:
                size.dim_param = named.get(size.dim_param, size.dim_param)
    del model.graph.value_info[:]


def _forget_sources(model: Any) -> None:
    """Take out lines and paths of the code that a graph was traced from."""
    graph = model.graph
    for part in (graph, *graph.node, *graph.input, *graph.output, *graph.initializer):
        part.doc_string = ""
        del part.metadata_props[:]


ONE_GRAPH = (
    "be one graph for batches of any size (no choice by values, no len(x) in a forward "
    "pass)"
)


def traced(graph: Graph, inputs: Inputs) -> torch.export.ExportedProgram:
    """Return a graph of plain operations for batches of any size.

    Raises:
        ValueError: If the members do what no graph can hold.
    """
    free = [_free_axes(inputs, tokens) for tokens in (True, False)]
    ways = free if free[0] != free[1] else free[:1]
    for shapes in ways:
        try:
            with torch.no_grad(), quiet():
                return torch.export.export(
                    graph, (inputs,), dynamic_shapes=(shapes,), strict=False
                )
        except Exception as error:
            if shapes is not ways[-1]:
                continue
            raise refused(ONE_GRAPH, error) from error
    raise AssertionError("one way returns or raises")


def refused(rule: str, error: BaseException) -> ValueError:
    """Return what a tracer complains of at bottom, in one sentence."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = (line.strip() for line in str(error).splitlines())
    reason = next(filter(None, lines), repr(error))
    return ValueError(f"members must {rule}, but: {reason}")


def _free_axes(inputs: Inputs, tokens: bool) -> object:
    """Return which axes may have any length: samples, and of whole numbers tokens."""
    batch = torch.export.Dim("batch", min=1)

    def axes(tensor: Tensor) -> dict[int, object]:
        widths = tokens and tensor.ndim == 2 and tensor.dtype == torch.int64
        return {0: batch, 1: torch.export.Dim.AUTO} if widths else {0: batch}

    if isinstance(inputs, Tensor):
        return axes(inputs)
    return {name: axes(tensor) for name, tensor in inputs.items()}


@contextmanager
def quiet() -> Iterator[None]:
    """Keep back what exporters say of themselves; what fails is told by its error."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
