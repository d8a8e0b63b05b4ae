"""From scores to best paths, probabilities and samples: arrays only, no words."""

from typing import TYPE_CHECKING

from tagloom.exports import lazily

if TYPE_CHECKING:
    from tagloom.trellis.backoff import BackoffArcs, BackoffTrellis, Slots
    from tagloom.trellis.batches import Candidates
    from tagloom.trellis.engine import Counts
    from tagloom.trellis.gradients import log_partition_grad
    from tagloom.trellis.machine import instruction_set, instruction_sets, use_instruction_set
    from tagloom.trellis.single_site import SingleSite, sample_single_sites
    from tagloom.trellis.states import StateSpace
    from tagloom.trellis.structures import Structure
    from tagloom.trellis.trellis import Best, NBest, Posterior, Trellis
else:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "backoff": ["BackoffArcs", "BackoffTrellis", "Slots"],
            "batches": ["Candidates"],
            "engine": ["Counts"],
            "gradients": ["log_partition_grad"],
            "machine": ["instruction_set", "instruction_sets", "use_instruction_set"],
            "semirings": [],
            "single_site": ["SingleSite", "sample_single_sites"],
            "states": ["StateSpace"],
            "structures": ["Structure"],
            "trellis": ["Best", "NBest", "Posterior", "Trellis"],
        },
    )

__all__ = [
    "BackoffArcs",
    "BackoffTrellis",
    "Best",
    "Candidates",
    "Counts",
    "NBest",
    "Posterior",
    "SingleSite",
    "Slots",
    "StateSpace",
    "Structure",
    "Trellis",
    "instruction_set",
    "instruction_sets",
    "log_partition_grad",
    "sample_single_sites",
    "use_instruction_set",
]
