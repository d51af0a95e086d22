"""Who carries out the work of a study: processes of this machine, Ray, or Slurm.

All do the same to the same store, so that results do not depend on the choice.
"""

from typing import Literal

from tepui.studies.executors.base import RETRIES, Executor
from tepui.studies.executors.processes import Processes
from tepui.studies.executors.ray import Ray
from tepui.studies.executors.slurm import Slurm

ExecutorName = Literal["processes", "ray", "slurm"]

__all__ = ["RETRIES", "Executor", "ExecutorName", "Processes", "Ray", "Slurm"]
