"""Raw text: tokens and sentences by rules, as character offsets."""

from typing import TYPE_CHECKING

from tagloom.exports import lazily

if TYPE_CHECKING:
    from tagloom.text.cuts import BLOCK, Cuts, Cutter, blocks, gaps
    from tagloom.text.patterns import PATTERNS, Pattern
    from tagloom.text.presets import PRESETS, Characters, Whitespace
    from tagloom.text.rules import Rules
else:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "cuts": ["BLOCK", "Cuts", "Cutter", "blocks", "gaps"],
            "patterns": ["PATTERNS", "Pattern"],
            "presets": ["PRESETS", "Characters", "Whitespace"],
            "rules": ["Rules"],
        },
    )

__all__ = [
    "BLOCK",
    "PATTERNS",
    "PRESETS",
    "Characters",
    "Cuts",
    "Cutter",
    "Pattern",
    "Rules",
    "Whitespace",
    "blocks",
    "gaps",
]
