"""What all pictures share: colors and style, panels, legends, files."""

import math
from collections.abc import Mapping, Sequence
from io import BytesIO, StringIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from torch import Tensor

# Okabe and Ito's palette: told apart by people with any color vision.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
STYLE: Any = {
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e5e5e5",
    "axes.axisbelow": True,
    "svg.hashsalt": "tepui",
    "svg.fonttype": "none",
}


def grid(
    count: int, columns: int = 3, size: tuple[float, float] = (4.0, 3.4)
) -> "tuple[Figure, list[Axes]]":
    """Return a figure with some panels, each of a size in inches."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    across = min(count, columns)
    down = math.ceil(count / across)
    with mpl.rc_context(STYLE):
        whole = (max(size[0] * across, 5.0), size[1] * down)
        figure = Figure(figsize=whole, layout="constrained")
        axes = [figure.add_subplot(down, across, n + 1) for n in range(count)]
    return figure, axes


def legend_below(figure: "Figure", axes: "Sequence[Axes]", columns: int = 5) -> None:
    """Add one legend below all panels."""
    handles = {
        name: handle
        for axis in axes
        for handle, name in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    if handles:
        inches = 0.7 + 0.09 * max(map(len, handles))
        fitting = max(1, int(figure.get_figwidth() / inches))
        figure.legend(
            list(handles.values()),
            list(handles),
            loc="outside lower center",
            ncols=min(len(handles), columns, fitting),
            frameon=False,
        )


def few_ticks(side: "Axis") -> None:
    """Label round numbers on a short logarithmic axis, powers of ten on a long one."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

    low, high = side.get_view_interval()
    if high / low < 5:
        side.set_major_locator(MaxNLocator(4))
    else:
        between = (1, 2, 5) if high / low < 50 else (1,)
        side.set_major_locator(LogLocator(subs=between, numticks=5))
    side.set_major_formatter("{x:g}")
    side.set_minor_formatter(NullFormatter())


def as_svg(figure: "Figure") -> str:
    """Return a figure as an SVG element, the same bytes for the same figure."""
    import matplotlib as mpl

    buffer = StringIO()
    with mpl.rc_context(STYLE):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def as_png(figure: "Figure") -> bytes:
    """Return a figure as a PNG file."""
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=150)
    return buffer.getvalue()


def image_grid(images: Mapping[str, "Tensor"]) -> "Figure":
    """Draw images side by side."""
    figure, axes = grid(len(images), 4)
    figure.set_size_inches(figure.get_figwidth() / 2, figure.get_figheight() / 1.6)
    for axis, (title, image) in zip(axes, images.items(), strict=True):
        pixels = image.permute(1, 2, 0).squeeze(-1)
        axis.imshow(pixels.numpy(), cmap="gray" if pixels.ndim == 2 else None)
        axis.set_title(title)
        axis.set_axis_off()
    return figure
