"""What every job of the benchmark suite stands on; jobs are in benchmarks/jobs, one file each.

::

    corpora    the sentences, read once, handed to every process as plain lists
    features   word2features for the peers, and the templates that give the same attributes
    jobs       Job, Contestant, Goal: what a job file declares
    children   the process of one contestant: it gets a Bench, and reports times and values
    models     the CRFs that several jobs use; tagging, training: what pairs of jobs share
    runner     starts the processes in turn, pinned, and gathers what they report
    results    the JSON of many jobs: merging, best and spread, goals, who is compared with whom
    reports    results -> table, Markdown, docs/benchmarks.md
    plots      results -> SVG

Nothing here imports tagloom or NumPy at the top: the peers run in an environment of their own.
"""

from harness.children import Bench
from harness.jobs import Contestant, Goal, Job
from harness.results import Found

__all__ = ["Bench", "Contestant", "Found", "Goal", "Job"]
