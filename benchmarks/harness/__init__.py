"""The harness of the benchmark suite; the jobs are in benchmarks/jobs, one file each.

::

    corpora    the sentences, read once, passed to every process as plain lists
    features   word2features for the peers, and templates that produce the same attributes
    jobs       Job, Contestant, Goal: the declarations of a job file
    children   the process of one contestant: it gets a Bench, and reports times and values
    models     the CRFs that several jobs use; tagging, training: the code of pairs of jobs
    runner     starts the pinned processes in turn and collects their reports
    results    the JSON of many jobs: merging, best and spread, goals, comparisons
    reports    results -> table, Markdown, docs/benchmarks.md
    plots      results -> SVG

No module imports tagloom or NumPy at the top, since the peers run in a separate environment.
"""

from harness.children import Bench
from harness.jobs import Contestant, Goal, Job
from harness.results import Found

__all__ = ["Bench", "Contestant", "Found", "Goal", "Job"]
