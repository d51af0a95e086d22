"""Work done by a Ray cluster, or by Ray on this machine."""

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from tepui.core.checks import require
from tepui.core.lease import first_free
from tepui.core.types import check_fields
from tepui.studies.executors.base import POLL, Events, Started, Terms, died, imported
from tepui.studies.job import Ended, JobError, threads_set
from tepui.studies.plan_file import Task

# Ray starts in seconds, but took 43 on a loaded machine and gives up before by itself.
PATIENCE = {
    "RAY_agent_register_timeout_ms": "120000",
    "RAY_gcs_server_port_wait_time_s": "120",
    "RAY_raylet_start_wait_time_s": "120",
}
CONNECTING = 10.0  # seconds
# What Ray announces for its next version: tasks without a GPU keep CUDA's variable.
QUIET = {"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}


@dataclass(frozen=True)
class Ray:
    """One Ray task per ensemble; the store must lie where all nodes reach it.

    Attributes:
        address: Of a cluster, such as ``10.0.0.1:6379``, or ``auto`` for the one that
            this machine belongs to; by default Ray is started here, for the time of the
            study.
        gpus: Share of a GPU that an ensemble takes; by default a whole one where
            ensembles are trained on GPUs.
    """

    address: str | None = None
    gpus: float | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        shares = self.gpus is None or 0 <= self.gpus <= 1 or self.gpus == int(self.gpus)
        rule = "be a share of one GPU or a whole number of them"
        require(shares and (self.gpus or 0) >= 0, "ray.gpus", rule, self.gpus)

    def run(self, tasks: Sequence[Task], terms: Terms) -> Events:
        """Carry out tasks, see :class:`~tepui.studies.executors.base.Executor`."""
        rule = "name no number for executor ray, which chooses the GPU"
        require(terms.device.index is None, "device", rule, str(terms.device))
        ray = imported("ray", "ray")
        with self._connected(ray, terms):
            remote = ray.remote(_done).options(
                num_cpus=terms.threads,
                num_gpus=self._gpus(terms.device),
                max_retries=terms.retries,
                runtime_env={"env_vars": threads_set(terms.threads)},
            )
            waiting, running = list(tasks), dict[Any, Task]()
            while waiting or running:
                while waiting and len(running) < (terms.workers or len(tasks)):
                    task = waiting.pop(first_free(t.lease for t in waiting))
                    running[remote.remote(task)] = task
                    yield Started(task.digest)
                for reference in ray.wait([*running], timeout=POLL)[0]:
                    task = running.pop(reference)
                    yield _answer(ray, reference, task, terms.retries)
                yield None

    def _gpus(self, device: torch.device) -> float:
        if self.gpus is not None:
            return self.gpus
        return 1.0 if device.type == "cuda" else 0.0

    @contextmanager
    def _connected(self, ray: Any, terms: Terms) -> Iterator[None]:
        """Connect to the cluster; one that the caller has connected to stays so."""
        if ray.is_initialized():
            yield
            return
        for name, value in {**PATIENCE, **QUIET}.items():
            os.environ.setdefault(name, value)
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        if self.address is None:
            processors = terms.workers and terms.workers * terms.threads
            options |= {"num_cpus": processors, "include_dashboard": False}
        else:
            _check_reachable(self.address)
        try:
            ray.init(address=self.address or "local", **options)
        except ConnectionError as error:
            raise ValueError(_unreachable(self.address, error)) from error
        except RuntimeError as error:
            raise JobError(f"Ray could not be started: {error}") from error
        try:
            yield
        finally:
            ray.shutdown()


def _check_reachable(address: str) -> None:
    """Raise if nobody listens at an address; Ray itself would try for minutes."""
    if address == "auto":
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=CONNECTING).close()
    except (OSError, OverflowError, ValueError) as error:
        raise ValueError(_unreachable(address, error)) from error


def _unreachable(address: str | None, error: Exception) -> str:
    rule = "be that of a Ray cluster that can be reached"
    reason = str(error).strip().partition("\n")[0]
    return f"ray.address must {rule}, got {address!r} ({reason})"


def _answer(ray: Any, reference: Any, task: Task, retries: int) -> Ended:
    try:
        answer: Ended = ray.get(reference)
    except ray.exceptions.RayError as error:
        return died(task, retries, f"died ({type(error).__name__})")
    return answer


def _done(task: Task) -> Ended:
    return task()
