"""Table 4: accuracy on corrupted TinyImageNet at each severity."""

from tepui.papers.sharpbalance.accuracy_tables import severity_table

RECIPE = severity_table("sharpbalance/table4", "tiny_imagenet")
