"""How fast members were trained before on this hardware, as run folders say."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch

from tepui.ensembles.loading import RUN
from tepui.studies.specifications import Trial
from tepui.training.described import environment_of, to_jsonable
from tepui.training.run_folder import RunFolder

_DEPTH = 3  # how far below a folder runs are looked for


class Speed(NamedTuple):
    """What runs with one method, model and batch size took."""

    seconds: float = 0.0
    samples: float = 0.0  # that members were trained on in this time
    peak_memory: int = 0  # bytes on a GPU, of the largest run

    @property
    def seconds_per_sample(self) -> float:
        """How long a member takes for one sample, all of its gradients included."""
        return self.seconds / self.samples


class Speeds:
    """Speeds of all runs below a folder that were made on this hardware."""

    def __init__(self, folder: Path, device: torch.device) -> None:
        self._found: dict[str, Speed] = {}
        hardware = environment_of(device)["hardware"]
        for run in _runs(folder):
            try:
                recorded, history = run.recorded(), run.history()
            except ValueError:  # of another version, or damaged: not this one's matter
                continue
            config, environment = recorded["config"], recorded["environment"]
            here = environment.get("hardware") == hardware
            if not here or config["device"] != device.type:
                continue
            model = dict(config["models"][0])
            del model["layers"]  # a trial does not know them
            name = _name(config["method"], model, config["batch_size"])
            for record in history:
                before = self._found.get(name, Speed())
                self._found[name] = Speed(
                    before.seconds + record.seconds,
                    before.samples + record.seconds * record.samples_per_second,
                    max(before.peak_memory, record.peak_memory or 0),
                )

    def of(self, trial: Trial, model: Mapping[str, Any]) -> Speed | None:
        """Return what is known of the method, model and batch size of a trial."""
        training = trial.training
        name = _name(to_jsonable(training.method), model, training.batch_size)
        return self._found.get(name)


def _name(method: Mapping[str, Any], model: Mapping[str, Any], batch_size: int) -> str:
    known = [method["class"], model, batch_size]
    return json.dumps(to_jsonable(known), sort_keys=True)


def _runs(folder: Path) -> Iterator[RunFolder]:
    for depth in range(1, _DEPTH + 1):
        for file in folder.glob("/".join(["*"] * depth + [RUN])):
            yield RunFolder(file.parent)
