"""The two kinds of file a graph is written as, and how each is run to compare it."""

import io
import json
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from tepui.core.checks import require
from tepui.core.extras import extra
from tepui.data.arrays import Inputs
from tepui.export.tracing import quiet, refused

Run = Callable[[Inputs], dict[str, Tensor]]
"""Runs what a file holds."""

INPUT = "inputs"  # the name of an input that is no mapping
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
                output_names=outputs,
            )
    except Exception as error:
        rule = "consist of operations that ONNX has (torch has more)"
        raise refused(rule, error) from error
    assert exported is not None
    return exported.model_proto


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
