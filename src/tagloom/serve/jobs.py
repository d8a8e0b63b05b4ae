"""Large requests in threads: begun in order, given up when nobody waits for the answer any more.

Small requests are answered on the event loop, which costs less than the way to a thread and back.
The native core releases the GIL, so that threads run beside the loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from tagloom.errors import RequestError
from tagloom.web import ClientLeft, Request

T = TypeVar("T")
THREADS = 2  # large requests that are answered at the same time


class Abandoned(Exception):
    """Nobody waits for the answer."""


class Jobs:
    """Runs work in threads.

    Parameters
    ----------
    timeout : float
        Seconds until a request is answered with 504.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="tagging")
        self._lock = threading.Lock()
        self.waiting = 0  # jobs that have not begun

    async def run(self, request: Request, work: Callable[[Callable[[], None]], T]) -> T:
        """Run work in a thread until it is done, the client leaves, or the time is up.

        Parameters
        ----------
        request : Request
            Whose body has been read.
        work : function
            Called with a function that raises `Abandoned` if the answer is not wanted any more.

        Raises
        ------
        ClientLeft
            If the client closed the connection.
        RequestError
            504 at the deadline.
        """
        is_abandoned = False

        def still_wanted() -> None:
            if is_abandoned:
                raise Abandoned

        def begin() -> T:
            with self._lock:
                self.waiting -= 1
            still_wanted()
            return work(still_wanted)

        with self._lock:
            self.waiting += 1
        job = asyncio.get_running_loop().run_in_executor(self._threads, begin)
        left = asyncio.ensure_future(request.left())
        both: set[asyncio.Future[Any]] = {job, left}
        try:
            done, _ = await asyncio.wait(
                both, timeout=self._timeout, return_when=asyncio.FIRST_COMPLETED
            )
            if job in done:
                return job.result()
        finally:
            is_abandoned = True
            left.cancel()
            job.add_done_callback(lambda job: job.cancelled() or job.exception())  # was retrieved
        if left in done:
            raise ClientLeft
        raise RequestError(
            status=504,
            where="server",
            expected=f"an answer within {self._timeout:g} seconds",
            found="none",
            hint="Send fewer sentences at a time.",
        )

    async def run_piece(self, function: Callable[[bytes], T], data: bytes) -> T:
        """Run a piece of a stream in a thread; streams have no deadline."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, data)

    def stop(self) -> None:
        """Let running jobs end; begin no other."""
        self._threads.shutdown(wait=False, cancel_futures=True)
