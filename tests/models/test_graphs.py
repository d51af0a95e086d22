"""Every model as a captured graph, and as one that torch can compile."""

import pytest
import torch

import tepui
from models.cases import NAMES, built, data
from tepui.methods import SAM
from tepui.modules.running import forward


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own
def test_can_be_traced_without_a_break(name):
    torch._dynamo.reset()
    model, inputs = built(name).eval(), data(name).inputs
    traced = torch.compile(model, backend="eager", fullgraph=True, dynamic=False)
    torch.testing.assert_close(forward(traced, inputs), forward(model, inputs))


def trained(name, runner):
    ensemble = tepui.Ensemble.build(lambda: built(name), members=2, seed=3)
    return tepui.fit(
        ensemble,
        data(name, samples=24),
        method=SAM(rho=0.05),
        optimizer=tepui.SGD(lr=0.01),
        epochs=2,
        batch_size=8,
        precision="float32",
        device="cuda",
        runner=runner,
        progress="none",
    )


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", NAMES)
def test_graph_equals_eager(name):
    graph, eager = trained(name, "graph"), trained(name, "eager")
    for one, other in zip(graph.history, eager.history, strict=True):
        assert one.loss == pytest.approx(other.loss, rel=1e-2)
