"""Counters in memory that all workers share, and their text for Prometheus.

The labels of every counter are known at the start (models, routes, codes), so each combination has
a fixed place in a row of numbers. A worker writes to its own row only, without locks; the sum over
rows is what ``/metrics`` shows, whichever worker answers. A worker that replaces a dead one
continues its row, so that no counter ever falls.
"""

from __future__ import annotations

import functools
import mmap
import os
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from tagloom.serve.registry import Registry

if TYPE_CHECKING:
    from prometheus_client import Metric

ROUTES: Final = ("tag", "explain", "models", "health", "metrics", "docs", "other")
#: Status codes that the server sends; 499 counts requests whose client left.
CODES: Final = (
    *(200, 204, 304, 400, 401, 404, 405, 413, 415, 421, 422, 429, 499, 500, 503, 504),
    0,  # any other
)
#: Upper bounds of the buckets of request times, in seconds.
BUCKETS: Final = (
    *(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
    float("inf"),
)
RESULTS: Final = ("loaded", "refused")
_GAUGES: Final = ("in_flight", "queue_depth", "pid")


class Metrics:
    """The counters of a server.

    Parameters
    ----------
    models : iterable of str
    n_workers : int
        Number of rows besides that of the parent.
    """

    def __init__(self, models: Iterable[str], n_workers: int = 1) -> None:
        self.models = (*models, "")  # "": requests that reached no model
        self._model_ids = {name: i for i, name in enumerate(self.models)}
        self._code_ids = {code: i for i, code in enumerate(CODES)}
        M, R, C = len(self.models), len(ROUTES), len(CODES)
        self._requests = 0
        self._seconds = M * R * C  # [R, buckets + 1], the last is the sum
        self._tokens = self._seconds + R * (len(BUCKETS) + 1)
        self._reloads = self._tokens + M
        self._gauges = self._reloads + M * len(RESULTS)
        self._restarts = self._gauges + len(_GAUGES)
        self._width = self._restarts + 1
        self._n_rows = n_workers + 1
        # Anonymous and shared: processes that are forked see the same numbers.
        memory = mmap.mmap(-1, 8 * self._width * self._n_rows)
        self._cells = memoryview(memory).cast("d")
        self._row = 0
        self.started = time.time()
        self.use_row(0)

    def use_row(self, worker: int) -> None:
        """Count in the row of a worker, numbered from 1, from now on."""
        self._row = worker * self._width
        for gauge in _GAUGES:
            self.set(gauge, 0)
        self.set("pid", os.getpid())

    # ---- counting --------------------------------------------------------------------------

    def count_request(self, model: str, route: int, status: int, seconds: float) -> None:
        """Count an answer."""
        cells, row = self._cells, self._row
        code = self._code_ids.get(status, len(CODES) - 1)
        cell = (self._model_ids[model] * len(ROUTES) + route) * len(CODES) + code
        cells[row + cell] += 1
        base = row + self._seconds + route * (len(BUCKETS) + 1)
        cells[base + bisect_left(BUCKETS, seconds)] += 1
        cells[base + len(BUCKETS)] += seconds

    def count_tokens(self, model: str, n: int) -> None:
        """Count tokens that were tagged."""
        self._cells[self._row + self._tokens + self._model_ids[model]] += n

    def count_reload(self, model: str, result: str) -> None:
        """Count a reload; the result is "loaded" or "refused"."""
        cell = self._model_ids[model] * len(RESULTS) + RESULTS.index(result)
        self._cells[self._row + self._reloads + cell] += 1

    def count_restart(self) -> None:
        """Count a worker that was replaced."""
        self._cells[self._row + self._restarts] += 1

    def set(self, gauge: str, value: float) -> None:
        """Set a gauge of this worker: in_flight, queue_depth or pid."""
        self._cells[self._row + self._gauges + _GAUGES.index(gauge)] = value

    def clear_worker(self, worker: int) -> None:
        """Forget what a dead worker was doing; its counters stay."""
        base = worker * self._width + self._gauges
        for i in range(len(_GAUGES)):
            self._cells[base + i] = 0

    # ---- showing ---------------------------------------------------------------------------

    def _sum(self, cell: int) -> float:
        return sum(self._cells[row * self._width + cell] for row in range(self._n_rows))

    def pids(self) -> list[int]:
        """Return the processes of the server."""
        place = self._gauges + _GAUGES.index("pid")
        pids = [int(self._cells[row * self._width + place]) for row in range(self._n_rows)]
        return sorted({pid for pid in pids if pid})

    def render(self, registry: Registry) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        from prometheus_client import CollectorRegistry, generate_latest

        collectors = CollectorRegistry(auto_describe=False)
        collectors.register(_Collector(lambda: self.collect(registry)))
        return generate_latest(collectors)

    def collect(self, registry: Registry) -> Iterator[Metric]:
        """Yield the metrics as objects of prometheus_client."""
        from prometheus_client.core import (
            CounterMetricFamily,
            GaugeMetricFamily,
            HistogramMetricFamily,
        )

        requests = CounterMetricFamily(
            "tagloom_requests", "Answered requests.", labels=["model", "route", "code"]
        )
        for m, model in enumerate(self.models):
            for r, route in enumerate(ROUTES):
                for c, code in enumerate(CODES):
                    n = self._sum((m * len(ROUTES) + r) * len(CODES) + c)
                    if n:
                        requests.add_metric([model, route, str(code or "other")], n)
        yield requests
        seconds = HistogramMetricFamily(
            "tagloom_request_seconds",
            "Seconds from the first byte of a request to the last of its answer.",
            labels=["route"],
        )
        for r, route in enumerate(ROUTES):
            base = self._seconds + r * (len(BUCKETS) + 1)
            total, buckets = 0.0, []
            for b, bound in enumerate(BUCKETS):
                total += self._sum(base + b)
                buckets.append(("+Inf" if bound == BUCKETS[-1] else str(bound), total))
            if total:
                seconds.add_metric([route], buckets, self._sum(base + len(BUCKETS)))
        yield seconds
        tokens = CounterMetricFamily("tagloom_tokens", "Tagged tokens.", labels=["model"])
        reloads = CounterMetricFamily(
            "tagloom_reloads", "Model files that changed.", labels=["model", "result"]
        )
        for m, model in enumerate(self.models[:-1]):
            tokens.add_metric([model], self._sum(self._tokens + m))
            for i, result in enumerate(RESULTS):
                n = self._sum(self._reloads + m * len(RESULTS) + i)
                reloads.add_metric([model, result], n)
        yield tokens
        yield reloads
        helps = ("Requests that are being answered.", "Large requests that wait for a thread.")
        for i, (gauge, text) in enumerate(zip(_GAUGES, helps, strict=False)):
            yield GaugeMetricFamily(f"tagloom_{gauge}", text, value=self._sum(self._gauges + i))
        yield CounterMetricFamily(
            "tagloom_worker_restarts", "Workers that died.", value=self._sum(self._restarts)
        )
        info = GaugeMetricFamily(
            "tagloom_model_info", "The models in use.", labels=["name", "version", "kind"]
        )
        for name in registry.names:
            served = registry.models.get(name)
            if served is not None:
                info.add_metric([name, served.version, served.tagger.kind], 1)
        yield info
        yield from self._processes()

    def _processes(self) -> Iterator[Metric]:
        """Yield the usual metrics of processes, summed over those of the server."""
        from prometheus_client import ProcessCollector

        sums: dict[str, Metric] = {}
        for pid in self.pids():
            of_pid = ProcessCollector(pid=functools.partial(int, pid), registry=None)
            for metric in of_pid.collect():
                if metric.name not in _SUMMED:
                    continue
                if metric.name in sums:
                    first = sums[metric.name].samples[0]
                    value = first.value + metric.samples[0].value
                    sums[metric.name].samples[0] = first._replace(value=value)
                else:
                    sums[metric.name] = metric
        yield from sums.values()


_SUMMED = ("process_cpu_seconds", "process_resident_memory_bytes", "process_open_fds")


class _Collector:
    def __init__(self, collect: Callable[[], Iterator[Any]]) -> None:
        self.collect = collect
