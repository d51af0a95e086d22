"""Salt: single pixels turn white, more of them the more severe it is.

tepui corrupt --types fog corruption.salt --out runs/salted
"""

from torch import Tensor

from tepui.data import Draws


def salt(images: Tensor, severity: int, draws: Draws) -> Tensor:
    """Return images in which 1 to 5 percent of the pixels are white."""
    drawn = draws.uniform(1, *images.shape[2:])
    return images.masked_fill(drawn < 0.01 * severity, 1.0)
