"""Ensembles come back from disk as they were, or an error says why not."""

import pytest
import torch
from torch import nn

import tepui
from tepui import Ensemble, tasks
from tepui.core.storage import read_tensors, same_bits, write_tensors
from tepui.ensembles.ensemble import FILE
from tepui.ensembles.loading import load_into
from tepui.models import MLP, ConvNet, ResNet18
from tepui.modules.state import load_tensor_state

FLOATS = [torch.bfloat16, torch.float16, torch.float32, torch.float64]


def mlp():
    return MLP(4, (6,), 3)


class Tied(nn.Module):
    """A foreign module with tied weights, a buffer and BatchNorm."""

    def __init__(self, width=3):
        super().__init__()
        self.first = nn.Linear(width, width)
        self.norm = nn.BatchNorm1d(width)
        self.last = nn.Linear(width, width)
        self.last.weight = self.first.weight
        self.register_buffer("steps", torch.tensor(7))

    def forward(self, x):
        return self.last(self.norm(self.first(x)))


def weights(module):
    return {name: value.clone() for name, value in module.state_dict().items()}


def saved(folder, factory=mlp, members=2, seed=13):
    ensemble = Ensemble.build(factory, members=members, seed=seed)
    ensemble.save(folder)
    return ensemble


def doctored(folder, **changes):
    """Save an ensemble and change the document in its file."""
    saved(folder)
    tensors, document = read_tensors(folder / FILE, "ensemble")
    write_tensors(folder / FILE, "ensemble", tensors, {**document, **changes})
    return folder


def test_models_of_tepui_come_back_without_a_factory(tmp_path):
    factories = [lambda: MLP(64, (5, 4), 10), ConvNet, lambda: ResNet18(width=4)]
    ensemble = Ensemble.build(factories[:2], seed=[13, 17])
    images = torch.rand(6, 1, 8, 8)
    ensemble(images)  # moves the running statistics
    file = ensemble.save(str(tmp_path))
    back = tepui.load(str(tmp_path))
    assert file == tmp_path / "ensemble.safetensors"
    assert same_bits(weights(back), weights(ensemble))
    assert [type(member) for member in back.members] == [MLP, ConvNet]
    assert back.seeds == (13, 17)
    assert not back.training
    assert torch.equal(back.logits(images), ensemble.logits(images))
    residual = saved(tmp_path / "residual", factories[2])
    assert same_bits(weights(tepui.load(tmp_path / "residual")), weights(residual))


def test_foreign_modules_come_back_through_a_factory(tmp_path):
    ensemble = Ensemble.build(Tied, members=2)
    ensemble(torch.randn(8, 3))
    ensemble.members[0].steps.fill_(99)
    ensemble.save(tmp_path)
    back = tepui.load(tmp_path, factory=Tied)
    assert same_bits(weights(back), weights(ensemble))
    for member in back.members:
        assert member.last.weight is member.first.weight
    tensors, _ = read_tensors(tmp_path / FILE, "ensemble")
    assert torch.equal(tensors["0.first.weight"], tensors["0.last.weight"])


def test_members_that_share_a_part_are_stored_once(tmp_path):
    shared = nn.Linear(30, 30)
    ensemble = Ensemble([nn.Sequential(shared, nn.Linear(30, 2)) for _ in range(3)])
    size = ensemble.save(tmp_path).stat().st_size
    assert size < 4 * sum(p.numel() for p in ensemble.parameters()) + 3000
    factory = lambda: nn.Sequential(nn.Linear(30, 30), nn.Linear(30, 2))  # noqa: E731
    assert same_bits(weights(tepui.load(tmp_path, factory)), weights(ensemble))


@pytest.mark.parametrize("dtype", FLOATS)
def test_number_types_come_back_without_rounding(tmp_path, dtype):
    ensemble = Ensemble.build(lambda: ConvNet(width=2).to(dtype), members=2)
    ensemble.save(tmp_path)
    for factory in (None, lambda: ConvNet(width=2).to(dtype)):
        assert same_bits(weights(tepui.load(tmp_path, factory)), weights(ensemble))


def test_an_ensemble_is_not_overwritten_silently(tmp_path):
    first = saved(tmp_path)
    second = Ensemble.build(mlp, members=2, seed=14)
    with pytest.raises(FileExistsError, match=r"exists; choose another .*overwrite="):
        second.save(tmp_path)
    assert same_bits(weights(tepui.load(tmp_path)), weights(first))
    second.save(tmp_path, overwrite=True)
    assert same_bits(weights(tepui.load(tmp_path)), weights(second))


def test_a_state_that_is_not_all_tensors_is_refused(tmp_path):
    class Odd(nn.Linear):
        def get_extra_state(self):
            return {"calls": 3}

    with pytest.raises(ValueError, match=r"Odd must hold tensors only, got .dict in"):
        Ensemble.build(lambda: Odd(2, 2), members=2).save(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name", ["os.system", "Tied", "__class__", "base.Model", "nn", "ResNet"]
)
def test_a_file_cannot_name_what_is_not_a_model_of_tepui(tmp_path, name):
    described = [{"model": name, "config": {"command": "true"}}] * 2
    doctored(tmp_path, members=described)
    with pytest.raises(ValueError, match=rf"^model in .* one of MLP, .*got '{name}'"):
        tepui.load(tmp_path)


def test_a_subclass_of_a_model_is_foreign(tmp_path):
    kind = type("MLP", (tepui.models.Model,), {"features": lambda self, x: x})

    def imposter():
        module = kind()
        module.classifier, module.config = nn.Linear(4, 3), {"in_features": 4}
        return module

    saved(tmp_path, imposter)
    with pytest.raises(ValueError, match=r"^factory must be given"):
        tepui.load(tmp_path)


def test_a_wrong_factory_is_told_what_is_missing_and_unexpected(tmp_path):
    saved(tmp_path)
    message = (
        r"^member 0 of .* must fit Linear, got missing \['weight', 'bias'\] \(2\) and "
        r"unexpected \['classifier.bias', 'classifier.weight', 'layers.1.bias'\] \(4\)"
    )
    with pytest.raises(ValueError, match=message):
        tepui.load(tmp_path, lambda: nn.Linear(4, 3))


def test_a_state_that_does_not_fit_changes_nothing():
    module = mlp()
    before = weights(module)
    state = {name: torch.zeros_like(value) for name, value in before.items()}
    state["classifier.bias"] = torch.zeros(9)
    with pytest.raises(ValueError, match=r"'classifier.bias' in here must have shape"):
        load_tensor_state(module, state, "here")
    assert same_bits(weights(module), before)


def test_weights_load_into_an_ensemble_of_the_same_shape(tmp_path):
    ensemble = saved(tmp_path)
    other = Ensemble.build(mlp, members=2, seed=99)
    members = list(other.members)
    load_into(other, tmp_path)
    assert same_bits(weights(other), weights(ensemble))
    assert list(other.members) == members
    message = r"be as many as the ensemble's \(3\), got 2"
    with pytest.raises(ValueError, match=message):
        load_into(Ensemble.build(mlp, members=3), tmp_path)


def test_a_subset_keeps_what_belongs_to_its_members(tmp_path):
    ensemble = Ensemble.build(mlp, seed=[13, 17, 27], task=tasks.Classes())
    data = tepui.data.Arrays(torch.randn(30, 4), torch.arange(30) % 3)
    ensemble.preparation = tepui.data.Preparation(classes=("a", "b", "c"))
    ensemble.calibrate(data)
    ensemble.conformal(data)
    part = ensemble.subset([2, 0])
    assert part.seeds == (27, 13)
    assert [*part.members] == [ensemble.members[2], ensemble.members[0]]
    assert (part.task, part.preparation) == (ensemble.task, ensemble.preparation)
    fitted = part.calibration, part.conformity, part.held_out_scores, part.detectors
    assert fitted == (None,) * 4
    part.save(tmp_path)
    loaded = tepui.load(tmp_path)
    assert loaded.seeds == (27, 13)
    expected = ensemble.logits(data.inputs)[[2, 0]]
    assert torch.equal(loaded.logits(data.inputs), expected)


def test_a_subset_of_heads_shares_their_extractor():
    body = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
    ensemble = Ensemble.on_features(body, lambda: nn.Linear(8, 3), members=3)
    part = ensemble.subset([1])
    assert part.extractor is ensemble.extractor
    x = torch.randn(5, 4)
    assert torch.equal(part.logits(x), ensemble.logits(x)[[1]])


def test_members_removed_in_place_are_not_saved_with_the_wrong_seeds(tmp_path):
    ensemble = Ensemble.build(mlp, members=3)
    del ensemble.members[2]
    with pytest.raises(ValueError, match=r"seeds must be as many as the members \(2\)"):
        ensemble.save(tmp_path)
    assert not [*tmp_path.iterdir()]
