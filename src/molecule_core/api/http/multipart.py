"""Streaming parser of multipart/form-data: yields the start of each file, then its bytes.

No I/O, and no buffer beyond one header line of a part; callers bound the total size. Nothing is unpacked, and parts
are never nested. The `multipart` package is imported with the first form.
"""

from collections.abc import AsyncGenerator, Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from molecule_core.api.http.routing import Request
from molecule_core.common.errors import InvalidUpload

if TYPE_CHECKING:
    from multipart import MultipartError, MultipartSegment, PushMultipartParser

FILES_FIELD = "files"
_FORM_TYPE = "multipart/form-data"
# RFC 2046, 5.1.1.
_MAX_BOUNDARY_LENGTH = 70
# One header line of a part: holds a file name far longer than what is stored of it.
_MAX_HEADER_LINE = 16 << 10
# More than the number of files allowed, so that too many files are rejected with an error of their own.
_MAX_PARTS = 64


class FilePart(Struct, frozen=True):
    """Start of a file, with name and type as declared by the sender."""

    name: str
    mime_type: str | None


async def read_form(request: Request) -> AsyncGenerator[FilePart | bytes, None]:
    """Yield the files of a form: a `FilePart`, then its bytes. Raises InvalidUpload."""
    from multipart import MultipartError, PushMultipartParser

    parser = PushMultipartParser(
        _boundary(request.header(b"content-type")), max_header_size=_MAX_HEADER_LINE, max_segment_count=_MAX_PARTS
    )
    if request.body_stream is None:
        raise LookupError("this route does not stream")
    try:
        async for piece in request.body_stream:
            for found in _parse_piece(parser, piece):
                yield found
        parser.close()
    except MultipartError as error:
        raise InvalidUpload(reason=_error_text(error)) from None


def _parse_piece(parser: "PushMultipartParser", piece: bytes) -> Iterator[FilePart | bytes]:
    if parser.closed:  # data after the last boundary is ignored
        return
    for found in parser.parse(piece):
        if isinstance(found, bytes | bytearray):
            yield bytes(found)
        elif found is not None:  # None ends a part
            yield _to_file_part(found)


def _to_file_part(part: "MultipartSegment") -> FilePart:
    if part.name != FILES_FIELD:
        raise InvalidUpload(reason="it has a field with another name")
    if part.filename is None:
        raise InvalidUpload(reason=f"its field {FILES_FIELD} has no file name")
    return FilePart(part.filename, part.content_type)


def _boundary(content_type: str | None) -> str:
    from multipart import parse_options_header

    kind, options = parse_options_header(content_type or "")
    boundary = str(options.get("boundary", ""))
    if kind != _FORM_TYPE or not 0 < len(boundary) <= _MAX_BOUNDARY_LENGTH or not boundary.isascii():
        raise InvalidUpload(reason=f"its Content-Type must be {_FORM_TYPE} with a boundary")
    return boundary


def _error_text(error: "MultipartError") -> str:
    """Return the parser's error as part of a sentence."""
    text = str(error.args[0] if error.args else "it is malformed")
    return text[0].lower() + text[1:]
