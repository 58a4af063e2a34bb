"""Streaming parser of multipart/form-data: yields the start of each file, then its bytes.

No I/O, and no buffer beyond one header line of a part; the server bounds the total size. Nothing is unpacked, and parts
are never nested. The packages `multipart` and `email` are imported with the first form.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from molecule_core.common.errors import InvalidUpload

if TYPE_CHECKING:
    from multipart import MultipartError, MultipartSegment, PushMultipartParser

_FORM_TYPE = "multipart/form-data"
# RFC 2046, 5.1.1.
_MAX_BOUNDARY_LENGTH = 70
# One header line of a part: holds a file name far longer than what is stored of it.
_MAX_HEADER_LINE = 16 << 10
# More than the number of files allowed, so that too many files are rejected with an error of their own.
_MAX_PARTS = 64
# Decodes each byte to one character, and encodes it back.
_ANY_BYTES = "latin-1"
_ENCODED_WORD = re.compile(r"=\?[\w-]+\?[bq]\?[^?\s]*\?=", re.IGNORECASE)


class FilePart(Struct, frozen=True):
    """Start of a file, with name and type as declared by the sender."""

    name: str
    mime_type: str | None


async def read_form(
    content_type: str | None, chunks: AsyncIterator[bytes], field: str
) -> AsyncGenerator[FilePart | bytes, None]:
    """Yield the files of a form: a `FilePart`, then its bytes. Raises InvalidUpload.

    `field`: the name that all fields of the form must have."""
    from multipart import MultipartError, PushMultipartParser

    parser = PushMultipartParser(
        _boundary(content_type),
        max_header_size=_MAX_HEADER_LINE,
        max_segment_count=_MAX_PARTS,
        header_charset=_ANY_BYTES,  # file_name decodes the names
    )
    try:
        async for piece in chunks:
            for found in _parse_piece(parser, piece, field):
                yield found
        parser.close()
    except MultipartError as error:
        raise InvalidUpload(reason=_error_text(error)) from None


def _parse_piece(parser: "PushMultipartParser", piece: bytes, field: str) -> Iterator[FilePart | bytes]:
    if parser.closed:  # data after the last boundary is ignored
        return
    for found in parser.parse(piece):
        if isinstance(found, bytes | bytearray):
            yield bytes(found)
        elif found is not None:  # None ends a part
            yield _to_file_part(found, field)


def _to_file_part(part: "MultipartSegment", field: str) -> FilePart:
    if part.name != field:
        raise InvalidUpload(reason="it has a field with another name")
    name = file_name(part.header("Content-Disposition") or "", part.filename)
    if name is None:
        raise InvalidUpload(reason=f"its field {field} has no file name")
    return FilePart(name, part.content_type)


def file_name(disposition: str, plain: str | None) -> str | None:
    """Return the file name of a Content-Disposition header, whose bytes were decoded as Latin-1; None if it has none.

    Clients write names that are not ASCII as UTF-8 (browsers, curl), as Latin-1 (old programs), as `filename*` of
    RFC 5987 (urllib3 1, aiohttp) or as encoded words of RFC 2047 (mail libraries, Postman).
    `plain`: the value of `filename`, unquoted."""
    extended = _extended_name(disposition) if "*" in disposition else None
    if extended is not None or plain is None:
        return extended
    return _decode_words(_decode_bytes(plain))


def _extended_name(disposition: str) -> str | None:
    """Return the value of `filename*` or of its continuations (RFC 2231), which takes precedence over `filename`."""
    from email.message import Message
    from email.utils import collapse_rfc2231_value

    header = Message()
    header["Content-Disposition"] = disposition
    names: list[Any] = [
        value for name, value in header.get_params([], header="Content-Disposition") if name.lower() == "filename"
    ]
    extended = [each for each in names if isinstance(each, tuple)]
    return collapse_rfc2231_value(extended[0]) if extended else None


def _decode_bytes(text: str) -> str:
    raw = text.encode(_ANY_BYTES)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("cp1252", errors="replace")


def _decode_words(text: str) -> str:
    if _ENCODED_WORD.search(text) is None:
        return text
    from email.errors import HeaderParseError
    from email.header import decode_header, make_header

    try:
        return str(make_header(decode_header(text)))
    except (HeaderParseError, LookupError, UnicodeError):  # it only looks like an encoded word
        return text


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
