"""An ensemble as one file that other programs run, without tepui.

The graph in it takes raw inputs and gives what the ensemble would predict, with its
uncertainty: preparation, all members, calibration and scores are inside.
"""

from tepui.export.exporting import Exported, Format, export_ensemble

__all__ = ["Exported", "Format", "export_ensemble"]
