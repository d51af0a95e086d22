"""Theory against simulation over a grid, and how deviations are counted."""

import numpy as np
import pytest

from tepui.theory import Agreement


def entry(relation, simulated):
    one = np.ones(1)
    return Agreement(
        "made up", relation, one.astype(int), one, one, one, np.array([simulated]), one
    )


@pytest.mark.parametrize(
    ("relation", "simulated", "deviation"),
    [
        ("equal", 3.0, 2.0),
        ("equal", -1.0, 2.0),
        ("upper bound", 3.0, 2.0),
        ("upper bound", -1.0, 0.0),
        ("lower bound", -1.0, 2.0),
        ("lower bound", 3.0, 0.0),
    ],
)
def test_bounds_deviate_only_where_broken(relation, simulated, deviation):
    assert entry(relation, simulated).deviation.tolist() == [deviation]
