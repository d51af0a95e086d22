"""What the theorems and simulations share besides the training itself."""

from dataclasses import dataclass

from tepui.core.checks import require
from tepui.theory.moments import integer_from, non_negative, positive


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A random quadratic, its initial weights, and how sharpness is measured.

    Attributes:
        rho0: Radius within which sharpness is measured, on all data.
        n: Rows of the data.
        d: Columns of the data.
        sigma2: Variance of the initial weights.
        theta_norm: Length of the teacher.
    """

    rho0: float
    n: int
    d: int
    sigma2: float
    theta_norm: float

    def __post_init__(self) -> None:
        positive("rho0", self.rho0)
        integer_from(1, "n", self.n)
        integer_from(1, "d", self.d)
        non_negative("sigma2", self.sigma2)
        positive("theta_norm", self.theta_norm)

    @property
    def ratio(self) -> float:
        """Rows per column, R."""
        return self.n / self.d

    @property
    def steepness(self) -> float:
        """The length of the teacher times the radius of sharpness."""
        return self.rho0 * self.theta_norm


def check_subsets(subsets: int, n: int) -> None:
    """Raise a ``ValueError`` unless every block of rows holds at least one."""
    integer_from(1, "subsets", subsets)
    require(subsets <= n, "subsets", f"lie between 1 and n = {n}", subsets)
