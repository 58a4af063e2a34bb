"""Reads files of the package and chooses their encoding: the canvas and the docs, compressed when they were built."""

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
_ENCODINGS = ((b"br", ".br"), (b"gzip", ".gz"))


def content_type(path: str) -> bytes:
    """Return the content type of a file by its suffix."""
    return _CONTENT_TYPES.get(path.rpartition(".")[2], b"application/octet-stream")


def read_files(folder: Path) -> dict[str, bytes]:
    """Return all files below a folder by their paths; none if it does not exist."""
    return dict(_read_folder(folder, "")) if folder.is_dir() else {}


def negotiate(files: Mapping[str, bytes], path: str, accepted: bytes) -> tuple[bytes, _Headers]:
    """Return a file in the best encoding that the client accepts, and the headers that say so."""
    usable = accepted_encodings(accepted)
    for name, suffix in _ENCODINGS:
        if name in usable and path + suffix in files:
            return files[path + suffix], ((b"vary", b"accept-encoding"), (b"content-encoding", name))
    return files[path], ((b"vary", b"accept-encoding"),)


def _read_folder(folder: Path, prefix: str) -> list[tuple[str, bytes]]:
    found = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _read_folder(entry, f"{prefix}{entry.name}/")
        else:
            found.append((prefix + entry.name, entry.read_bytes()))
    return found
