"""Members trained elsewhere become an ensemble, and ours go elsewhere.

Torch-uncertainty and pytorch-ood import torchvision, which the parts used here do not
need: where it cannot be had, an empty stand-in takes its place. OpenOOD is on no
package index; what its documented interface asks of a network is written down here.
"""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import tepui
from tepui.core.storage import same_bits
from tepui.ensembles import ensemble_of
from tepui.models.without_torchvision import stand_in_for_torchvision

STREAM = torch.Generator().manual_seed(0)
X, Y = torch.randn(40, 4, generator=STREAM), torch.arange(40) % 3


def network():
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))


@pytest.fixture
def without_torchvision():
    """A stand-in where torchvision cannot be loaded."""
    with stand_in_for_torchvision():
        yield


@pytest.fixture
def ensemble():
    return tepui.Ensemble.build(network, members=3, seed=1).eval()


@pytest.mark.filterwarnings("ignore")
def test_lightning_checkpoints_become_an_ensemble(tmp_path):
    lightning = pytest.importorskip("lightning")

    class Lit(lightning.LightningModule):
        def __init__(self, lr=0.1):
            super().__init__()
            self.save_hyperparameters()
            self.model = network()
            self.loss = nn.CrossEntropyLoss(weight=torch.ones(3))

        def training_step(self, batch, index):
            return self.loss(self.model(batch[0]), batch[1])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=self.hparams.lr)

    loader = DataLoader(TensorDataset(X, Y), batch_size=10)
    modules, files = [], []
    for seed in (0, 1):
        lightning.seed_everything(seed, verbose=False)
        modules.append(Lit())
        trainer = lightning.Trainer(
            max_epochs=1,
            accelerator="cpu",
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            default_root_dir=tmp_path,
        )
        trainer.fit(modules[-1], loader)
        files.append(tmp_path / f"{seed}.ckpt")
        trainer.save_checkpoint(files[-1])
    ensemble = ensemble_of(files, network)
    live = tepui.Ensemble([lit.model for lit in modules])
    for member, lit in zip(ensemble.members, modules, strict=True):
        assert same_bits(member.state_dict(), lit.model.state_dict())
    assert torch.equal(ensemble.predict(X).probs, live.predict(X).probs)


@pytest.mark.filterwarnings("ignore")
def test_folders_of_the_trainer_become_an_ensemble(tmp_path):
    transformers = pytest.importorskip("transformers")
    sizes = {"vocab_size": 30, "hidden_size": 8, "embedding_size": 4}
    config = transformers.AlbertConfig(
        **sizes,
        num_attention_heads=2,
        num_hidden_layers=1,
        intermediate_size=16,
        max_position_embeddings=12,
        num_labels=3,
    )

    def make():
        return transformers.AlbertForSequenceClassification(config)

    ids = torch.randint(30, (8, 6), generator=STREAM)
    rows = [{"input_ids": row, "labels": n % 3} for n, row in enumerate(ids)]
    trained, folders = [], []
    for seed in (0, 1):
        transformers.set_seed(seed)
        options = transformers.TrainingArguments(
            output_dir=str(tmp_path / str(seed)),
            num_train_epochs=1,
            use_cpu=True,
            report_to=[],
            save_strategy="epoch",
            disable_tqdm=True,
        )
        trainer = transformers.Trainer(make(), options, train_dataset=rows)
        trainer.train()
        trained.append(trainer.model.eval())
        folders += sorted((tmp_path / str(seed)).glob("checkpoint-*"))
    ensemble = ensemble_of(folders, make)
    expected = torch.stack([model(input_ids=ids).logits for model in trained])
    found = ensemble.logits({"input_ids": ids})
    torch.testing.assert_close(found, expected.detach())


@pytest.mark.filterwarnings("ignore")
def test_checkpoints_of_timm_become_an_ensemble(tmp_path, without_torchvision):
    timm = pytest.importorskip("timm")

    def make():
        return timm.create_model("resnet10t", num_classes=3)

    nets = [make().eval() for _ in range(2)]
    files = [tmp_path / f"{n}.pth.tar" for n in range(2)]
    for net, file in zip(nets, files, strict=True):
        weights = {f"module.{n}": t for n, t in net.state_dict().items()}
        torch.save({"epoch": 1, "arch": "resnet10t", "state_dict": weights}, file)
    ensemble = ensemble_of(files, make)
    for member, net in zip(ensemble.members, nets, strict=True):
        assert same_bits(member.state_dict(), net.state_dict())


@pytest.mark.filterwarnings("ignore")
def test_an_ensemble_goes_into_torch_uncertainty(ensemble, without_torchvision):
    pytest.importorskip("torch_uncertainty")
    from torch_uncertainty.methods.deep_ensembles import deep_ensembles

    theirs = deep_ensembles([*ensemble.members]).eval()
    found = theirs(X).view(3, 40, 3)  # members after each other, as their routine reads
    assert theirs.num_estimators == 3
    torch.testing.assert_close(found, ensemble.logits(X))


class Joint(nn.Module):
    """The logarithm of members' mean probabilities, as the document has it."""

    def __init__(self, ensemble):
        super().__init__()
        self.ensemble = ensemble.eval()

    def forward(self, x):
        return self.ensemble(x).softmax(-1).mean(0).log()


@pytest.mark.filterwarnings("ignore")
def test_an_ensemble_goes_into_pytorch_ood(ensemble, without_torchvision):
    pytest.importorskip("pytorch_ood")
    from pytorch_ood.detector import EnergyBased, MaxSoftmax

    detector = MaxSoftmax(Joint(ensemble))
    with torch.no_grad():
        found = detector.predict(X)
        energy = EnergyBased(Joint(ensemble)).predict(X)
    torch.testing.assert_close(found, -ensemble.predict(X).probs.max(1).values)
    # Logarithms of probabilities have no energy: their softmax is all there is.
    torch.testing.assert_close(energy, torch.zeros(40), atol=1e-5, rtol=0)


class StandInPostprocessor:
    """What OpenOOD's evaluator does with a network: maximum softmax probability."""

    @torch.no_grad()
    def postprocess(self, net, data):
        confidence, predicted = net(data).softmax(1).max(1)
        return predicted, confidence


def test_an_ensemble_has_what_openood_asks_of_a_network(ensemble):
    net = Joint(ensemble)
    net.eval()
    predicted, confidence = StandInPostprocessor().postprocess(net, X)
    out = ensemble.predict(X)
    assert torch.equal(predicted, out.labels)
    torch.testing.assert_close(confidence, out.confidence)
