"""Who trains the ensembles of a study: what the command line says of it."""

from tepui.studies.executors import Executor, ExecutorName, Processes, Ray, Slurm

DEFAULT_RAY, DEFAULT_SLURM = Ray(), Slurm()


def executor_named(name: ExecutorName, ray: Ray, slurm: Slurm) -> Executor:
    """Return the executor that was asked for, with its own options."""
    executors: dict[ExecutorName, Executor] = {
        "processes": Processes(),
        "ray": ray,
        "slurm": slurm,
    }
    return executors[name]
