"""Table 3: accuracy on corrupted CIFAR-100 at each severity.

Measured at small size, with stand-ins (n = 3; aarch64, torch 2.13.0+cpu): ensemble
accuracy on cifar100_c: deep_ensemble 72.27 ± 0.83, sam 72.13 ± 0.57, sharpbalance 72.25
± 0.64, sharpbalance_released 72.88 ± 0.71 percent.
"""

from tepui.papers.sharpbalance.accuracy_tables import severity_table

RECIPE = severity_table("sharpbalance/table3", "cifar100")
