"""The process of a worker: requests from stdin, replies to stdout, until stdin ends.

Not the main module of the process: what a main module defines cannot be sent to others.
"""

from __future__ import annotations

import os
import pickle
import sys

from tagloom.cluster.messages import Channel
from tagloom.cluster.worker import Reply, Worker

#: The command of the process; the handles of its boxes follow.
COMMAND = (sys.executable, "-c", "from tagloom.cluster.process import main; main()")


def main() -> None:
    """Answer requests until stdin ends, which it does when the program that started this ends."""
    requests, replies = os.fdopen(os.dup(0), "rb", 0), os.fdopen(os.dup(1), "wb", 0)
    os.dup2(2, 1)  # what a shard prints must not mix with the replies
    channel, worker = Channel.of_worker(requests, replies), Worker()
    try:
        sys.path[:] = channel.receive()
        while True:
            calls, common = channel.receive()
            reply = worker.handle(calls, channel.unpack(common))
            try:
                channel.send(reply)
            except (TypeError, AttributeError, pickle.PicklingError) as error:
                channel.send(Reply([], RuntimeError(f"a result cannot be sent: {error}")))
    except (EOFError, BrokenPipeError):  # the program that started this process has ended
        channel.close()
