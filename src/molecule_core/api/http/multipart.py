"""multipart/form-data as it comes: a file begins, a piece of it, and so on. Nothing is kept here.

The parser has no I/O and no memory beyond one line of a part's headers; how much comes is counted by those who feed it
and by those who take the pieces. What is inside a file is bytes: nothing is unpacked, and no part has parts of its own.

Above: `api/messages/files.py`. Below: the `multipart` package, which is loaded with the first form.
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
# As RFC 2046 has it.
_MAX_BOUNDARY_LENGTH = 70
# A line of a part's headers: room for a file name that is far longer than what is kept of it.
_MAX_HEADER_LINE = 16 << 10
# More than files are allowed, so that too many are told as that; of anything else none is allowed.
_MAX_PARTS = 64


class FilePart(Struct, frozen=True):
    """The next file, as its sender calls it and says that it is."""

    name: str
    mime_type: str | None


async def read_form(request: Request) -> AsyncGenerator[FilePart | bytes, None]:
    """The files of a form: each begins, then come its bytes. Raises InvalidUpload."""
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
    if parser.closed:  # what stands behind the last boundary means nothing
        return
    for found in parser.parse(piece):
        if isinstance(found, bytes | bytearray):
            yield bytes(found)
        elif found is not None:  # which ends a part
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
    """What the parser found, as the part of a sentence."""
    text = str(error.args[0] if error.args else "it is malformed")
    return text[0].lower() + text[1:]
