"""Table 2: accuracy on corrupted CIFAR-10 at each severity.

Measured at small size, with stand-ins (n = 3; aarch64, torch 2.13.0+cpu): ensemble
accuracy on cifar10_c: deep_ensemble 95.08 ± 0.2, sam 94.87 ± 0.3, sharpbalance 94.91 ±
0.26, sharpbalance_released 94.85 ± 0.3 percent.
"""

from tepui.papers.sharpbalance.accuracy_tables import severity_table

RECIPE = severity_table("sharpbalance/table2", "cifar10")
