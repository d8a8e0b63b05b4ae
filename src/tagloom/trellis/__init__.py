"""From scores to best paths, probabilities and samples: arrays only, no words."""

from typing import TYPE_CHECKING

from tagloom.exports import lazily

if TYPE_CHECKING:
    from tagloom.trellis.backoff import BackoffArcs, BackoffTrellis, Slots
    from tagloom.trellis.batches import Candidates
    from tagloom.trellis.engine import Counts
    from tagloom.trellis.gradients import log_partition_grad
    from tagloom.trellis.machine import instruction_set, instruction_sets, use_instruction_set
    from tagloom.trellis.segments import Segment, SegmentTrellis, segment_log_partition_grad
    from tagloom.trellis.selection import (
        AtMostOnce,
        ExactlyOnce,
        OnlyAfter,
        OnlyIf,
        OnlyLabels,
        Selected,
        SpanConstraint,
        SpanSelection,
        select_spans,
    )
    from tagloom.trellis.single_site import SingleSite, sample_single_sites
    from tagloom.trellis.states import StateSpace
    from tagloom.trellis.structures import Structure
    from tagloom.trellis.trees import BestTree, NBestTrees, TreeScores
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
            "segments": ["Segment", "SegmentTrellis", "segment_log_partition_grad"],
            "selection": [
                "AtMostOnce",
                "ExactlyOnce",
                "OnlyAfter",
                "OnlyIf",
                "OnlyLabels",
                "Selected",
                "SpanConstraint",
                "SpanSelection",
                "select_spans",
            ],
            "semirings": [],
            "single_site": ["SingleSite", "sample_single_sites"],
            "states": ["StateSpace"],
            "structures": ["Structure"],
            "trees": ["BestTree", "NBestTrees", "TreeScores"],
            "trellis": ["Best", "NBest", "Posterior", "Trellis"],
        },
    )

__all__ = [
    "AtMostOnce",
    "BackoffArcs",
    "BackoffTrellis",
    "Best",
    "BestTree",
    "Candidates",
    "Counts",
    "ExactlyOnce",
    "NBest",
    "NBestTrees",
    "OnlyAfter",
    "OnlyIf",
    "OnlyLabels",
    "Posterior",
    "Segment",
    "SegmentTrellis",
    "Selected",
    "SingleSite",
    "Slots",
    "SpanConstraint",
    "SpanSelection",
    "StateSpace",
    "Structure",
    "TreeScores",
    "Trellis",
    "instruction_set",
    "instruction_sets",
    "log_partition_grad",
    "sample_single_sites",
    "segment_log_partition_grad",
    "select_spans",
    "use_instruction_set",
]
