"""What every function of theory says of arguments that it cannot take."""

from functools import partial

import numpy as np
import pytest

from tepui import theory

SETTING = theory.Setting(rho0=0.1, n=60, d=6, sigma2=0.2, theta_norm=1.5)
USUAL = {"k": 3, "eta": 0.01, "rho": 0.1}
MOMENT = {"i": 2, "j": 0, "eta": 0.1, "rho": 0.1, "ratio": 2.0}
OF_STEPS = {"num_steps": 1, "eta": 0.1, "rho": 0.1}
OF_SETTING = {"rho0": 0.1, "n": 60, "d": 6, "sigma2": 0.2, "theta_norm": 1.5}
ONES = np.ones(2)
EDGE, EDGES = {"rho": 0.1, "ratio": 2.0}, {"eta": 0.1, "ratio": 2.0}


def taking(function, *first):
    """Return a function of names whose first arguments have no names."""
    return lambda **given: function(*[given.pop(n) for n in first], **given)


FUNCTIONS = {
    "phi": (taking(theory.phi, "i", "j"), MOMENT),
    "phi_exact": (taking(theory.phi_exact, "i", "j"), MOMENT),
    "phi_multinomial": (taking(theory.phi_multinomial, "i", "j"), MOMENT),
    "theorem1": (taking(partial(theory.theorem1, SETTING), "k"), USUAL),
    "theorem2": (
        taking(partial(theory.theorem2, SETTING), "k"),
        {**USUAL, "subsets": 10},
    ),
    "simulate_sam": (
        taking(partial(theory.simulate_sam, SETTING), "k"),
        {**USUAL, "subsets": 2},
    ),
    "subset_constant": (
        taking(theory.subset_constant, "k"),
        {**USUAL, "ratio": 2.0, "subsets": 2},
    ),
    "simulate_subset_constant": (
        taking(theory.simulate_subset_constant, "k"),
        {**USUAL, "n": 20, "d": 4, "subsets": 2},
    ),
    "iterate_sam": (
        partial(theory.iterate_sam, np.eye(2), ONES[None], 0 * ONES),
        OF_STEPS,
    ),
    "unroll_sam": (
        partial(theory.unroll_sam, np.eye(2), ONES[None], 0 * ONES),
        OF_STEPS,
    ),
    "largest_rise": (
        taking(theory.largest_rise, "eigenvalues", "gradient", "radius"),
        {"eigenvalues": ONES, "gradient": ONES, "radius": 1.0},
    ),
    "Setting": (theory.Setting, OF_SETTING),
    "agreement": (theory.agreement, {"n": 3000, "d": 150, "sigma2": 0.1, "subsets": 2}),
    "eta_at_sharpness": (
        taking(partial(theory.eta_at_sharpness, SETTING, 0.5), "k"),
        {"k": 3, "rho": 0.1, "subsets": 1},
    ),
    "largest_stable_eta": (taking(theory.largest_stable_eta, "rho", "ratio"), EDGE),
    "largest_stable_rho": (taking(theory.largest_stable_rho, "eta", "ratio"), EDGES),
    "simulate_losses": (
        partial(theory.simulate_losses, SETTING, 1),
        {"eta": 0.1, "rho": 0.1},
    ),
}
BAD = {"eta": -0.1, "rho": -0.2, "ratio": 0.0, "rho0": 0.0, "n": 0, "d": 0}
BAD |= {"sigma2": -1.0, "theta_norm": 0.0, "i": -1, "j": -2, "k": -1, "num_steps": -1}
BAD |= {"subsets": 0, "radius": 0.0, "eigenvalues": np.array([-1.0, 1.0])}
CASES = [
    *(
        (f, name, BAD[name])
        for f, (_, usual) in FUNCTIONS.items()
        for name in usual
        if name in BAD
    ),
    ("theorem1", "gap", "har"),
    ("subset_constant", "constant", "right"),
    ("theorem2", "subsets", 61),
    ("simulate_sam", "subsets", 61),
    ("simulate_sam", "matrices", 1),
    ("simulate_sam", "initializations", 1),
    ("simulate_sam", "maximizer", "newton"),
    ("simulate_subset_constant", "subsets", 21),
    ("subset_constant", "subsets", 2.5),
    ("phi", "i", 1.5),
    ("phi", "rho", float("nan")),
    ("Setting", "d", 1.5),
    ("agreement", "subsets", 2.5),
    ("agreement", "subsets", 3001),
    ("eta_at_sharpness", "subsets", 61),
    ("simulate_losses", "loss", "hinge"),
    ("simulate_losses", "freedom", 2.0),
    ("simulate_losses", "matrices", 1),
    ("simulate_losses", "initializations", 1),
]


@pytest.mark.parametrize(("function", "name", "value"), CASES)
def test_bad_input_is_named(function, name, value):
    called, usual = FUNCTIONS[function]
    with pytest.raises(ValueError, match=f"{name} must "):
        called(**{**usual, name: value})
