"""Figure 1: how SED differs from earlier diversification, a diagram."""

from tepui.papers.recipe import Diagram

RECIPE = Diagram(
    "where members disagree, earlier and in SED; see docs/diversification.md"
)
