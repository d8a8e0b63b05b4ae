"""Start Python and import tagloom; NumPy for comparison. `import tagloom` alone loads little, and
the rest on first use, so the access to a tagger is also timed.
"""

import sys

from harness import Bench, Contestant, Goal, Job

START, TAGGER = "start and import", "start, import, look up CRF"


def tagloom(bench: Bench) -> None:
    bench.command(START, [sys.executable, "-c", "import tagloom"], times=5)
    bench.command(TAGGER, [sys.executable, "-c", "import tagloom; tagloom.CRF"], times=5)


def numpy(bench: Bench) -> None:
    bench.command(START, [sys.executable, "-c", "import numpy"], times=5)


JOB = Job(
    "import",
    [Contestant("tagloom", tagloom), Contestant("numpy", numpy)],
    [
        Goal(
            "above NumPy alone",
            lambda found: found.cpu("tagloom", START) - found.cpu("numpy", START),
            at_most=0.05,
            unit="s",
        ),
        Goal(
            "above NumPy alone, with a tagger",
            lambda found: found.cpu("tagloom", TAGGER) - found.cpu("numpy", START),
            at_most=0.05,
            unit="s",
        ),
    ],
)
