"""`RayEngine`: workers that are actors of a Ray cluster; needs the extra ``tagloom[ray]``.

An actor that is lost, with its process or its whole node, is made again wherever there is room, and
gets its shards anew from the files and from the calls that the engine keeps. Nothing is stored on
the nodes, so they need only the files of the corpus, under the same names.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any

from tagloom import checks
from tagloom.cluster.engines import Lost, WorkerEngine
from tagloom.cluster.worker import Reply, Request, Worker
from tagloom.errors import MissingExtraError, ParameterError

_LOCAL = "local"  # start Ray on this machine
_PATIENCE = 10.0  # seconds to wait for a connection


class RayEngine(WorkerEngine):
    """Shards on the nodes of a Ray cluster.

    Parameters
    ----------
    address : str
        ``"auto"`` for the cluster that this machine belongs to, ``"ray://host:10001"`` or
        ``"host:6379"`` for another one, ``"local"`` for a new one on this machine.
    n_workers : int, optional
        The number of actors, one CPU each; by default all CPUs of the cluster.
    most : int, optional
        The number of workers that have work.

    Raises
    ------
    MissingExtraError
        If Ray is not installed.
    ParameterError
        If there is no cluster at the address.
    """

    def __init__(self, address: str, n_workers: int | None = None, *, most: int | None = None):
        try:
            import ray
        except ImportError:
            raise MissingExtraError(
                "A cluster needs Ray, which is not installed.",
                expected="the package ray",
                found="none",
                hint="Install it: pip install 'tagloom[ray]'.",
            ) from None
        self._ray = ray
        self._owns = not ray.is_initialized()
        if self._owns:
            try:
                _check_listening(address)
                ray.init(
                    address=None if address == _LOCAL else address,
                    log_to_driver=False,
                    logging_level="ERROR",
                    **({"include_dashboard": False} if address == _LOCAL else {}),
                )
            except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
                raise ParameterError(
                    parameter="cluster",
                    expected='the address of a running Ray cluster, or "auto" on one of its nodes',
                    found=f"{address!r}: {str(error).splitlines()[0]}",
                ) from None
        if n_workers is None:
            n_workers = max(1, int(ray.cluster_resources().get("CPU", 1)))
        super().__init__(n_workers if most is None else max(1, min(n_workers, most)))
        self._actor = ray.remote(num_cpus=1, max_restarts=0)(Worker)

    def _start_worker(self) -> _Actor:
        return _Actor(self._ray, self._actor.remote())

    def _broadcast(self, common: tuple[Any, ...]) -> Any:
        return self._ray.put(common) if common else ()

    @property
    def process_ids(self) -> list[int]:
        """The ids of the processes that run the actors, each on its own node."""
        actors = [w.actor for w in self._workers if isinstance(w, _Actor)]
        ids: list[int] = self._ray.get([actor.process_id.remote() for actor in actors])
        return ids

    def close(self) -> None:
        """End the actors; also Ray, if this engine has started or joined it."""
        super().close()
        if self._owns:
            self._ray.shutdown()


def _check_listening(address: str) -> None:
    """Raise OSError at once if nothing listens at an address; Ray would try for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and checks.whole_number(port) is not None:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE):
            pass


class _Actor:
    """A worker in an actor."""

    def __init__(self, ray: Any, actor: Any) -> None:
        self._ray, self.actor = ray, actor
        self._error = ""

    def ask(self, requests: Sequence[Request], common: Any) -> Reply:
        """Send requests and wait for the answer."""
        try:
            reply: Reply = self._ray.get(self.actor.handle.remote(list(requests), common))
        except (self._ray.exceptions.RayActorError, self._ray.exceptions.ObjectLostError) as error:
            self._error = type(error).__name__
            raise Lost from None
        return reply

    def describe(self) -> str:
        """Return how the actor ended."""
        return self._error

    def close(self) -> None:
        """End the actor."""
        self._ray.kill(self.actor)
