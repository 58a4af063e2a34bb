"""Reads files of the package and chooses their encoding: the canvas and the docs.

The build writes the Brotli form of large scripts and styles, for which Python has no compressor. The gzip form is made
at the first request: in the package it would be as large as the file itself, which a wheel holds deflated.
"""

import asyncio
import gzip
from collections.abc import Mapping
from pathlib import Path

from molecule_core.api.compression import accepted_encodings

_Headers = tuple[tuple[bytes, bytes], ...]
_CONTENT_TYPES = {
    "css": b"text/css; charset=utf-8",
    "html": b"text/html; charset=utf-8",
    "ico": b"image/x-icon",
    "js": b"text/javascript; charset=utf-8",
    "json": b"application/json",
    "png": b"image/png",
    "svg": b"image/svg+xml",
    "webmanifest": b"application/manifest+json",
    "woff2": b"font/woff2",
}
_TEXT_TYPES = (b"text/", b"application/json", b"application/manifest+json", b"image/svg+xml")
# A smaller file gains less than the headers that say so.
_LEAST_BYTES = 1024


def content_type(path: str) -> bytes:
    """Return the content type of a file by its suffix."""
    return _CONTENT_TYPES.get(path.rpartition(".")[2], b"application/octet-stream")


def read_files(folder: Path) -> dict[str, bytes]:
    """Return all files below a folder by their paths; none if it does not exist."""
    return dict(_read_folder(folder, "")) if folder.is_dir() else {}


async def negotiate(
    files: Mapping[str, bytes], gzipped: dict[bytes, bytes], path: str, accepted: bytes
) -> tuple[bytes, _Headers]:
    """Return a file in the best encoding that the client accepts, and the headers that say so.

    `gzipped`: the gzip forms that were made for earlier requests, by content."""
    usable = accepted_encodings(accepted)
    vary = (b"vary", b"accept-encoding")
    if b"br" in usable and f"{path}.br" in files:
        return files[f"{path}.br"], (vary, (b"content-encoding", b"br"))
    if b"gzip" in usable and _is_compressible(path, files[path]):
        content = files[path]
        if content not in gzipped:
            # In a thread: 20 ms for the largest file, in which other requests go on.
            gzipped[content] = await asyncio.to_thread(gzip.compress, content, mtime=0)
        return gzipped[content], (vary, (b"content-encoding", b"gzip"))
    return files[path], (vary,)


def _is_compressible(path: str, content: bytes) -> bool:
    return len(content) >= _LEAST_BYTES and content_type(path).startswith(_TEXT_TYPES)


def _read_folder(folder: Path, prefix: str) -> list[tuple[str, bytes]]:
    found = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _read_folder(entry, f"{prefix}{entry.name}/")
        else:
            found.append((prefix + entry.name, entry.read_bytes()))
    return found
