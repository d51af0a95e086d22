"""Table 2: accuracy on corrupted CIFAR-10 at each severity."""

from tepui.papers.sharpbalance.accuracy_tables import severity_table

RECIPE = severity_table("sharpbalance/table2", "cifar10")
