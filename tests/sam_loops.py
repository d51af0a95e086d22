"""One job for SAM, the update written out, and the loop of every framework.

The job: 20 batches, SGD with momentum and weight decay, BatchNorm, clipping of the
final gradient. A loop trains a network in place with the SAM it is given, as a user of
that framework would write it.
"""

import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import clip_grad_norm_
from torch.utils.data import DataLoader, SequentialSampler, TensorDataset

from processes import saved
from tepui.optim import SAM

STEPS, ROWS = 20, 24
RHO, CLIP = 0.3, 0.05
SETTINGS = {"lr": 0.2, "momentum": 0.9, "weight_decay": 1e-2}


class Contender(NamedTuple):
    """A SAM: how it is built, and how its documentation says to make a step."""

    build: Callable[..., Any]  # of a network and, where it clips, a norm
    step: Callable[[Any, Callable[[], Any]], Any]
    clips: bool = False  # whether it clips the final gradient itself
    own_norms: bool = False  # whether it perturbs every tensor by a norm of its own

    def built(self, net):
        return self.build(net, max_grad_norm=CLIP) if self.clips else self.build(net)


def ours(net, **options):
    arguments = {"module": net, **SETTINGS, **options}
    return SAM(net.parameters(), torch.optim.SGD, RHO, **arguments)


TEPUI = Contender(ours, lambda optimizer, closure: optimizer.step(closure), clips=True)


def make_net(dtype=torch.float64):
    torch.manual_seed(0)
    layers = nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)
    return nn.Sequential(*layers).to(dtype)


def data_of(net):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(STEPS * ROWS, 5, generator=generator, dtype=torch.float64)
    y = torch.randint(3, (STEPS * ROWS,), generator=generator)
    return x.to(net[0].weight.dtype), y


def batches_of(net):
    x, y = data_of(net)
    return zip(x.split(ROWS), y.split(ROWS), strict=True)


def loss_of(net, x, y):
    logits = net(x)
    whole = torch.promote_types(logits.dtype, torch.float32)
    return F.cross_entropy(logits.to(whole), y)


def mixed(bf16):
    return torch.autocast("cpu", torch.bfloat16) if bf16 else nullcontext()


def gradients_of(net, x, y, parts, bf16):
    net.zero_grad()
    for some, labels in zip(x.chunk(parts), y.chunk(parts), strict=True):
        with mixed(bf16):
            loss = loss_of(net, some, labels) / parts
        loss.backward()
    return [p.grad.clone() for p in net.parameters()]


def written_out(net, parts=1, bf16=False, rho=RHO, own_norms=False):
    """Train by SAM's update as the paper has it, without any optimizer of that name."""
    parameters = list(net.parameters())
    base = torch.optim.SGD(parameters, **SETTINGS)
    norms = []
    for x, y in batches_of(net):
        gradients = gradients_of(net, x, y, parts, bf16)
        length = torch.cat([g.flatten() for g in gradients]).norm()
        before = [tensor.detach().clone() for tensor in (*parameters, *net.buffers())]
        for parameter, gradient in zip(parameters, gradients, strict=True):
            divisor = gradient.norm() if own_norms else length
            parameter.data += rho * gradient / divisor
        gradients_of(net, x, y, parts, bf16)
        for tensor, value in zip((*parameters, *net.buffers()), before, strict=True):
            tensor.data.copy_(value)
        norms.append(clip_grad_norm_(parameters, CLIP).item())
        base.step()
    return norms


def closure_of(sam, net, optimizer, x, y, backward=torch.Tensor.backward, parts=1):
    """Return a closure as a loop of one's own has it, in parts where asked to."""

    def closure():
        optimizer.zero_grad()
        total = 0.0
        for some, labels in zip(x.chunk(parts), y.chunk(parts), strict=True):
            loss = loss_of(net, some, labels) / parts
            backward(loss)
            total += loss.detach()
        if not sam.clips:
            clip_grad_norm_(net.parameters(), CLIP)
        return total

    return closure


def plain_loop(net, sam, parts=1):
    optimizer = sam.built(net)
    for x, y in batches_of(net):
        sam.step(optimizer, closure_of(sam, net, optimizer, x, y, parts=parts))


def plain_loop_in_bf16(net, sam):
    optimizer = sam.built(net)

    def autocast(x):
        with mixed(True):
            return net(x)

    for x, y in batches_of(net):
        sam.step(optimizer, closure_of(sam, _Called(net, autocast), optimizer, x, y))


class _Called:
    """A network called in another way."""

    def __init__(self, net, call):
        self.parameters, self.call = net.parameters, call

    def __call__(self, x):
        return self.call(x)


def lightning_trainer(**options):
    from lightning.pytorch import Trainer

    quiet = ["logger", "enable_checkpointing", "enable_progress_bar"]
    quiet.append("enable_model_summary")
    return Trainer(
        max_epochs=1,
        accelerator="cpu",
        devices=1,
        default_root_dir=tempfile.gettempdir(),
        **dict.fromkeys(quiet, False),
        **options,
    )


def lightning_module(net, optimizer_of, training_step, automatic):
    from lightning.pytorch import LightningModule

    class Module(LightningModule):
        def __init__(self):
            super().__init__()
            self.net, self.automatic_optimization = net, automatic

        def configure_optimizers(self):
            return optimizer_of(net)

    Module.training_step = training_step
    return Module()


def lightning_fit(net, module, **options):
    data = DataLoader(TensorDataset(*data_of(net)), batch_size=ROWS)
    lightning_trainer(**options).fit(module, data)


def lightning_automatic(net, sam, **options):
    def training_step(self, batch, _):
        return loss_of(self.net, *batch)

    module = lightning_module(net, sam.build, training_step, automatic=True)
    lightning_fit(net, module, gradient_clip_val=CLIP, **options)


def lightning_manual(net, sam, parts=1, **options):
    def training_step(self, batch, _):
        optimizer = self.optimizers()
        backward = self.manual_backward
        sam.step(optimizer, closure_of(sam, net, optimizer, *batch, backward, parts))

    module = lightning_module(net, sam.built, training_step, automatic=False)
    lightning_fit(net, module, **options)


def lightning_scaled(net, sam):
    """Mixed precision with a gradient scaler, as "16-mixed" has on a GPU."""
    from lightning.pytorch.plugins import MixedPrecision

    def training_step(self, batch, _):
        optimizer = self.optimizers()
        backward = self.manual_backward
        optimizer.backward(closure_of(sam, net, optimizer, *batch, backward))
        optimizer.step()

    module = lightning_module(net, sam.built, training_step, automatic=False)
    plugin = MixedPrecision("bf16-mixed", "cpu", None)
    plugin.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    lightning_fit(net, module, plugins=[plugin])


def fabric(net, sam, parts=1, **options):
    from lightning.fabric import Fabric

    fabric = Fabric(accelerator="cpu", devices=1, **options)
    model, optimizer = fabric.setup(net, sam.built(net))
    for x, y in batches_of(net):
        closure = closure_of(sam, model, optimizer, x, y, fabric.backward, parts)
        sam.step(optimizer, closure)


def accelerated(scaled=False, **options):
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState, GradientState

    for shared in (AcceleratorState, GradientState):
        shared._reset_state()
    accelerator = Accelerator(cpu=True, **options)
    if scaled:
        accelerator.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    return accelerator


def accelerate(net, sam, parts=1, **options):
    accelerator = accelerated(**options)
    model, optimizer = accelerator.prepare(net, sam.built(net))
    for x, y in batches_of(net):
        backward = accelerator.backward
        sam.step(optimizer, closure_of(sam, model, optimizer, x, y, backward, parts))


def accelerate_scaled(net, sam):
    """Mixed precision with a gradient scaler, as "fp16" has on a GPU."""
    accelerator = accelerated(scaled=True)
    inner = sam.built(net)
    model, optimizer = accelerator.prepare(net, inner)
    for x, y in batches_of(net):
        inner.backward(closure_of(sam, model, optimizer, x, y, accelerator.backward))
        optimizer.step()


class Labeled(nn.Module):
    """A network that takes and returns what Hugging Face's Trainer expects."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x, labels):
        return {"loss": loss_of(self.net, x, labels)}


def trainer_of(net, optimizer, kind=None, **options):
    import transformers

    class InOrder(kind or transformers.Trainer):
        def _get_train_sampler(self, train_dataset=None):
            return SequentialSampler(self.train_dataset)

    arguments = transformers.TrainingArguments(
        output_dir=tempfile.mkdtemp(),
        per_device_train_batch_size=ROWS,
        num_train_epochs=1,
        lr_scheduler_type="constant",
        max_grad_norm=CLIP,
        use_cpu=True,
        report_to=[],
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        **options,
    )
    x, y = data_of(net)
    samples = [{"x": row, "labels": label} for row, label in zip(x, y, strict=True)]
    return InOrder(
        Labeled(net), arguments, train_dataset=samples, optimizers=(optimizer, None)
    )


def trainer_as_it_is(net, sam, **options):
    trainer_of(net, sam.build(net), **options).train()


def trainer_with_both_passes(net, sam, **options):
    import transformers

    inner = sam.build(net)

    class SAMTrainer(transformers.Trainer):
        def training_step(self, model, inputs, num_items_in_batch=None):
            def closure():
                inner.zero_grad()
                ordinary = super(SAMTrainer, self).training_step
                return ordinary(model, dict(inputs), num_items_in_batch)

            return inner.backward(closure)

    trainer_of(net, inner, SAMTrainer, **options).train()


def gradient_scaler(net, sam):
    """As SAM's documentation has it: the scaler is given to step."""
    optimizer, scaler = sam.built(net), torch.amp.GradScaler("cpu", init_scale=2.0**10)

    def backward(loss):
        scaler.scale(loss).backward()

    for x, y in batches_of(net):
        optimizer.step(closure_of(sam, net, optimizer, x, y, backward), scaler=scaler)
        scaler.update()


def gradient_scaler_as_usual(net, sam):
    """As every loop with a scaler is written: ``scaler.step(optimizer)``."""
    optimizer, scaler = sam.built(net), torch.amp.GradScaler("cpu", init_scale=2.0**10)

    def backward(loss):
        scaler.scale(loss).backward()

    for x, y in batches_of(net):
        optimizer.backward(closure_of(sam, net, optimizer, x, y, backward))
        scaler.step(optimizer)
        scaler.update()


def compiled(net, sam, backend="aot_eager"):
    optimizer, model = sam.built(net), torch.compile(net, backend=backend)
    for x, y in batches_of(net):
        sam.step(optimizer, closure_of(sam, model, optimizer, x, y))


WORKER = """
import os, sys
sys.path[:0] = sys.argv[2:3]
import importlib, torch
from torch import distributed
import sam_loops

rank, folder = int(os.environ["RANK"]), sys.argv[1]
torch.set_num_threads(1)
distributed.init_process_group(
    "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2
)
contenders = importlib.import_module(sys.argv[3])
sam = getattr(contenders, sys.argv[4])
torch.save(sam_loops.rank_of_two(sys.argv[5], rank, sam), f"{folder}/{rank}.pt")
distributed.destroy_process_group()
"""


def rank_of_two(kind, rank, sam):
    """Train on this rank's half of every batch; return the whole weights."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel

    net = make_net()
    batches = list(batches_of(net))
    if kind == "ddp":
        model = DistributedDataParallel(net)
    else:
        model = fully_shard(net, mesh=init_device_mesh("cpu", (2,)))
    optimizer = sam.built(model)
    for x, y in batches:
        mine, own = x.chunk(2)[rank], y.chunk(2)[rank]
        sam.step(optimizer, closure_of(sam, model, optimizer, mine, own))
    whole = [getattr(p, "full_tensor", lambda p=p: p)() for p in net.parameters()]
    return [tensor.detach().clone() for tensor in whole]


def two_processes(
    net, sam, kind, contenders="sam_loops", name="TEPUI", beside=Path(__file__).parent
):
    """Train in two real processes; the weights come back into ``net``."""
    with tempfile.TemporaryDirectory() as folder:
        weights, other = saved(WORKER, folder, 2, beside, contenders, name, kind)
    assert all(torch.equal(a, b) for a, b in zip(weights, other, strict=True))
    for parameter, value in zip(net.parameters(), weights, strict=True):
        parameter.data.copy_(value)
