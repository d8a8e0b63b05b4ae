"""The model file: arrays and a JSON header in one file that is mapped, checked and never executed.

This layer knows arrays and JSON. What they mean is said by those who call it; how they lie in the
file is specified in docs/format.md.
"""

from tagloom.storage.contents import File
from tagloom.storage.files import is_model, read, read_bytes, to_bytes, write
from tagloom.storage.strings import pack_bytes, pack_strings, unpack_bytes, unpack_strings

__all__ = [
    "File",
    "is_model",
    "pack_bytes",
    "pack_strings",
    "read",
    "read_bytes",
    "to_bytes",
    "unpack_bytes",
    "unpack_strings",
    "write",
]
