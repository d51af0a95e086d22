"""Recompute the tables of the answer in ``equal_price.md`` from its records."""

import json
from collections import defaultdict
from pathlib import Path

import numpy as np

RECORDS = Path(__file__).with_name("equal_price.jsonl")
ARMS = {f"{n} members": ("plain", k) for k, n in enumerate(("four", "five", "six"), 4)}
ARMS = {"plain": ("plain", 3), **ARMS, "epochs": ("epochs", 3)}
ARMS["SharpBalance"] = "sharpbalance", 3
RULE = [("epochs", "SharpBalance"), ("five members", "SharpBalance")]
PAIRS = [*RULE, ("SharpBalance", "plain"), ("epochs", "plain")]
NODES, WEIGHTS = np.polynomial.legendre.leggauss(100)
SHOWN = ("A", "C", "NLL", "ECE", "sure and wrong", "error at 80 %")


def p_value(t, freedom):
    """Return the two-sided p of Student's t, by Gauss's quadrature.

    With t = √ν cot φ it is the integral of sin^(ν−1) up to φ, over that up to π/2.
    """
    ends = np.array([np.arctan2(np.sqrt(freedom), abs(t)), np.pi / 2]) / 2
    part, whole = ends * (WEIGHTS @ np.sin(np.outer(NODES + 1, ends)) ** (freedom - 1))
    return part / whole


def paired(first, second):
    """Return the mean difference, the ends of its 95 % interval, and its p."""
    apart, low, high = np.subtract(first, second), 0.0, 100.0
    freedom, error = len(apart) - 1, apart.std(ddof=1) / len(apart) ** 0.5
    for _ in range(60):  # bisection: the t whose p is 0.05
        t = (low + high) / 2
        low, high = (t, high) if p_value(t, freedom) > 0.05 else (low, t)
    mean = apart.mean()
    return mean, mean - t * error, mean + t * error, p_value(mean / error, freedom)


def holm(ps):
    """Return p values corrected by Holm's method."""
    steps = np.sort(ps) * np.arange(len(ps), 0, -1)
    return np.maximum.accumulate(steps).clip(max=1)[np.argsort(np.argsort(ps))]


def read():
    """Return the values of each arm, quantity by quantity, one per seed."""
    raw, found = defaultdict(list), {}
    for line in map(json.loads, RECORDS.read_text().splitlines()):
        which = line["arm"], line["members"], line["measure"], line.get("data")
        raw[which].append(line["value"])
    for arm, of in ARMS.items():
        accuracy, nll, ece = (
            np.array([np.concatenate([*v.values()]) for v in raw[*of, name, None]])
            for name in ("accuracy", "nll_at_temperature", "ece_at_temperature")
        )  # by seed: the clean images, then 45 copies
        sure = 100 * np.array(raw[*of, "sure_and_wrong", "corrupted"])
        kept = 100 * np.array(raw[*of, "error_by_share_kept", "corrupted"])[:, 159]
        damaged = (x[:, 1:].mean(1) for x in (100 * accuracy, nll, 100 * ece))
        values = 100 * accuracy[:, 0], *damaged, sure, kept
        found[arm] = dict(zip(SHOWN, values, strict=True))
        seconds = (s["steps"] + s["exchange"] for s in raw[*of, "seconds", None])
        found[arm]["seconds"] = [*seconds]
    return found


def tables():
    """Yield the lines of the tables of arms and of their differences."""
    found = read()
    yield f"| arm | {' | '.join(SHOWN)} | seconds |\n|---{'|--:' * 7}|"
    for arm, values in found.items():
        cells = [f"{np.mean(values[name]):.3f}" for name in SHOWN]
        seconds = f"{np.mean(values['seconds']):.1f}" if values["seconds"] else ""
        yield f"| {arm} | {' | '.join(cells)} | {seconds} |"
    yield f"\n| difference | {' | '.join(SHOWN)} |\n|---{'|--:' * 6}|"
    apart = {
        (a, b): {name: paired(found[a][name], found[b][name]) for name in SHOWN}
        for a, b in PAIRS
    }
    ps = iter(holm([apart[pair][name][3] for pair in RULE for name in "AC"]))
    for pair in PAIRS:
        line = f"| {' less '.join(pair)} |"
        for name, (mean, low, high, _) in apart[pair].items():
            p = f", *p* {next(ps):.2g}" if pair in RULE and name in "AC" else ""
            line += f" {mean:+.3f} ({low:.3f} to {high:.3f}){p} |"
        yield line.replace("-", chr(0x2212))


if __name__ == "__main__":
    print(*tables(), sep="\n")
