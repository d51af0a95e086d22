"""Figure 6: how SharpBalance works, a diagram."""

from tepui.recipes.base import Diagram

RECIPE = Diagram("how SharpBalance divides the training set; see docs/sharpbalance.md")
