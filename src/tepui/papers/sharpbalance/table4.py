"""Table 4: accuracy on corrupted TinyImageNet at each severity.

Measured at small size, with stand-ins (n = 3; aarch64, torch 2.13.0+cpu): ensemble
accuracy on tiny_imagenet_c: deep_ensemble 45.34 ± 0.44, sam 45.4 ± 0.38, sharpbalance
45.75 ± 0.67, sharpbalance_released 45.34 ± 0.37 percent.
"""

from tepui.papers.sharpbalance.accuracy_tables import severity_table

RECIPE = severity_table("sharpbalance/table4", "tiny_imagenet")
