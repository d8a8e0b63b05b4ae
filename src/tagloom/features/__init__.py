"""Features: templates, functions and files that turn sentences into attribute ids."""

from typing import TYPE_CHECKING

from tagloom.exports import lazily

if TYPE_CHECKING:
    from tagloom.features.attributes import AttributeRows, to_attributes
    from tagloom.features.batches import Encoded
    from tagloom.features.crfpp import CRFppTemplates, read_crfpp
    from tagloom.features.extractors import (
        START,
        STOP,
        FeatureExtractor,
        extract,
        from_dict,
        global_vector,
        make,
    )
    from tagloom.features.items import Function, Items
    from tagloom.features.lexicons import Clusters, Lexicon
    from tagloom.features.presets import PRESETS
    from tagloom.features.segments import SEGMENT_PRESETS, SegmentTemplates
    from tagloom.features.templates import Templates
    from tagloom.features.wapiti import WapitiTemplates, read_wapiti
else:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "attributes": ["AttributeRows", "to_attributes"],
            "batches": ["Encoded"],
            "crfpp": ["CRFppTemplates", "read_crfpp"],
            "extractors": [
                "FeatureExtractor",
                "START",
                "STOP",
                "extract",
                "from_dict",
                "global_vector",
                "make",
            ],
            "items": ["Function", "Items"],
            "lexicons": ["Clusters", "Lexicon"],
            "presets": ["PRESETS"],
            "segments": ["SEGMENT_PRESETS", "SegmentTemplates"],
            "templates": ["Templates"],
            "wapiti": ["WapitiTemplates", "read_wapiti"],
        },
    )

__all__ = [
    "PRESETS",
    "SEGMENT_PRESETS",
    "START",
    "STOP",
    "AttributeRows",
    "CRFppTemplates",
    "Clusters",
    "Encoded",
    "FeatureExtractor",
    "Function",
    "Items",
    "Lexicon",
    "SegmentTemplates",
    "Templates",
    "WapitiTemplates",
    "extract",
    "from_dict",
    "global_vector",
    "make",
    "read_crfpp",
    "read_wapiti",
    "to_attributes",
]
