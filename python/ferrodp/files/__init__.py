"""Files of named arrays: `.npy`, `.npz` and `.safetensors`, read and written without pickle, strictly and in one pass.

A file is described before any element of it is read (`describe`), and its arrays are read into buffers that the caller
owns (`read_into`), so that a thousand files cost the memory of one. Nothing is mapped: a file that shrinks while it is
read is an error, not a fault of the process. Whatever a file does not promise in its header is refused: trailing bytes,
duplicate names, checksums that do not hold. Messages name files and arrays, never elements.
"""

from ferrodp.files._atomic import Destination
from ferrodp.files._formats import EXTENSIONS, check_writable, describe, extension, read_into, write
from ferrodp.files._layout import Entry, FileRefused, Layout, check_alike

__all__ = [
    "EXTENSIONS",
    "Destination",
    "Entry",
    "FileRefused",
    "Layout",
    "check_alike",
    "check_writable",
    "describe",
    "extension",
    "read_into",
    "write",
]
