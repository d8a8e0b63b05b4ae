"""The model file: arrays and a JSON header in one file that is mapped, checked and never executed.

This layer stores arrays and JSON; models decide what they mean. docs/format.md specifies the file.
"""

from tagloom.storage.contents import File
from tagloom.storage.copies import Copy
from tagloom.storage.files import is_model, read, read_bytes, read_copy, to_bytes, write
from tagloom.storage.strings import pack_bytes, pack_strings, unpack_bytes, unpack_strings

__all__ = [
    "Copy",
    "File",
    "is_model",
    "pack_bytes",
    "pack_strings",
    "read",
    "read_bytes",
    "read_copy",
    "to_bytes",
    "unpack_bytes",
    "unpack_strings",
    "write",
]
