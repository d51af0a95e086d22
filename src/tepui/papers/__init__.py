"""The papers' figures and tables as recipes.

What is listed here and in :mod:`tepui.studies` is what a recipe in a package of one's
own needs.
"""

from tepui.papers.recipe import Diagram, Numbers, Order, Recipe, look_up
from tepui.papers.reproduce import reproduce

__all__ = ["Diagram", "Numbers", "Order", "Recipe", "look_up", "reproduce"]
