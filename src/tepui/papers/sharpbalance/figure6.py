"""Figure 6: how SharpBalance works, a diagram."""

from tepui.papers.recipe import Diagram

RECIPE = Diagram("how SharpBalance divides the training set; see docs/sharpbalance.md")
