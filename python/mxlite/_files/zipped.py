"""Exceptions of damaged zip files; imported late, because zip and lzma cost 4 MB of memory."""

from __future__ import annotations

import struct
import zipfile
import zlib

# Exceptions that reading a damaged or forged zip file can raise.
ZIP_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    LookupError,
    NotImplementedError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
)
