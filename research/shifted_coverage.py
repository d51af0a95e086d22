"""What a shift does to the coverage of conformal sets, and weights against it.

Digits that an ensemble has not seen are split into held-out and new ones, and the new
ones are drawn by odds that are known, or are corrupted. One half of the new ones tells
the estimated weights, the other is tested on.

python research/shifted_coverage.py
"""

import json
import warnings
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

import tepui
from tepui.data import Digits, corrupted, split
from tepui.methods import DeepEnsemble
from tepui.metrics import ConformalSets, ensemble_probs
from tepui.metrics.conformal import density_ratio, ratio_weights
from tepui.models import MLP

SEEDS, SPLITS, COVERAGE = (13, 17, 27), 60, 0.9
CELLS = (("gaussian_noise", 1), ("gaussian_noise", 3), ("contrast", 1), ("contrast", 3))
FILE = Path(__file__).with_suffix(".jsonl")


def arms(held: Tensor, seen: Tensor, new: Tensor, odds: Tensor | None) -> dict:
    """Return weights of held-out and of new samples, by what tells them."""
    ratio = density_ratio(held, seen)
    found = {
        "plain": (None, None),
        "estimated": (ratio_weights(ratio, held), ratio_weights(ratio, new)),
    }
    if odds is not None:
        found["known"] = odds.split([held.shape[1], new.shape[1]])
    return found


def coverages(own: Tensor, other: Tensor, labels: Tensor, odds: Tensor | None) -> dict:
    """Return coverage, size and effective samples over splits, by arm."""
    rows: dict[str, list] = {}
    for number in range(SPLITS):
        stream = torch.Generator().manual_seed(number)
        held, new = torch.randperm(len(labels), generator=stream).chunk(2)
        if odds is not None:
            drawn = torch.rand(len(new), generator=stream) * odds.max()
            new = new[drawn < odds[new]]
        told, new = new.chunk(2)
        both = None if odds is None else odds[torch.cat([held, new])]
        each = arms(own[:, held], other[:, told], other[:, new], both)
        for arm, (weights, of_new) in each.items():
            probs = ensemble_probs(own[:, held])
            how = {"coverage": COVERAGE, "weights": weights}
            made = ConformalSets.fit(probs, labels[held], **how)
            sets = made.sets(ensemble_probs(other[:, new]), of_new)
            inside = sets.gather(1, labels[new, None]).double().mean()
            size = sets.sum(1).double().mean()
            worth = min(made.effective_samples, len(held))
            rows.setdefault(arm, []).append([float(inside), float(size), worth])
    return {arm: np.mean(values, 0).tolist() for arm, values in rows.items()}


def records(seed: int) -> list[dict]:
    """Train an ensemble and return what each arm comes to under each shift."""
    train, rest = split(Digits(), 0.8, seed=seed)
    ensemble = tepui.Ensemble.build(lambda: MLP(64, [32], 10), 3, seed=seed)
    how = {"epochs": 6, "progress": "none", "optimizer": tepui.AdamW(lr=0.005)}
    tepui.fit(ensemble, train, method=DeepEnsemble(), **how)
    out, labels = ensemble.predict(rest), rest.targets
    own = out.outputs
    ink = torch.as_tensor(rest.inputs).flatten(1).double().mean(1)
    shifts = {"none": (own, torch.ones(len(labels)).double())}
    for name, value in {"ink": ink, "doubt": out.total_uncertainty.double()}.items():
        scaled = (value - value.mean()) / value.std()
        shifts[name] = own, scaled.clamp(-2, 2).exp()
    for kind, severity in CELLS:
        (copy,) = corrupted(rest, types=[kind], severities=[severity]).values()
        shifts[f"{kind} {severity}"] = ensemble.predict(copy).outputs, None
    found = []
    for name, (other, odds) in shifts.items():
        for arm, values in coverages(own, other, labels, odds).items():
            named = zip(("coverage", "size", "effective"), values, strict=True)
            found.append({"seed": seed, "shift": name, "arm": arm, **dict(named)})
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", UserWarning)
    every = [record for seed in SEEDS for record in records(seed)]
    FILE.write_text("".join(json.dumps(record) + "\n" for record in every))
    for shift, arm in dict.fromkeys((r["shift"], r["arm"]) for r in every):
        own = [r for r in every if (r["shift"], r["arm"]) == (shift, arm)]
        mean = {
            n: np.mean([r[n] for r in own]) for n in ("coverage", "size", "effective")
        }
        error = np.std([r["coverage"] for r in own], ddof=1) / len(own) ** 0.5
        print(
            f"{shift:18}{arm:10} {100 * mean['coverage']:.1f} ± {100 * error:.1f} %  "
            f"size {mean['size']:.2f}  effective {mean['effective']:.0f}"
        )
