"""Engines: run objects and functions on several processes or machines.

An engine knows nothing of models. It makes one object per shard on its workers, calls a method of
all of them, and returns the results in the order of the shards. `LocalEngine` uses processes of
this machine, `RayEngine` a Ray cluster (extra ``tagloom[ray]``), `InlineEngine` this process. What
a shard does is up to the model; see `tagloom.models.shards`.

Calls have no side effects, except those that the engine keeps and repeats on a new worker. A worker
that dies is therefore replaced, and the results have the same bits.
"""

from typing import TYPE_CHECKING

from tagloom.exports import lazily

if TYPE_CHECKING:
    from tagloom.cluster.engines import Engine, InlineEngine, open_engine
    from tagloom.cluster.local import LocalEngine
    from tagloom.cluster.on_ray import RayEngine
else:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "engines": ["Engine", "InlineEngine", "open_engine"],
            "local": ["LocalEngine"],
            "on_ray": ["RayEngine"],
        },
    )

__all__ = ["Engine", "InlineEngine", "LocalEngine", "RayEngine", "open_engine"]
