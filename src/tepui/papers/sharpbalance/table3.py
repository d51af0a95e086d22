"""Table 3: accuracy on corrupted CIFAR-100 at each severity."""

from tepui.papers.sharpbalance.accuracy_tables import severity_table

RECIPE = severity_table("sharpbalance/table3", "cifar100")
