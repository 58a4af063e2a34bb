"""Chooses encodings by what clients accept, and compresses large responses that are made for each request."""

import asyncio
import gzip

from msgspec.structs import replace

from molecule_core.api.http.response import Response

# A smaller body gains less than a packet or two.
_LEAST_BYTES = 16 * 1024
_VARIES = (b"vary", b"accept-encoding")
# 10,000 workspaces: 9.9 MB in 0.29 MB and 68 ms; level 1 saves 40 ms of them and sends a third more.
_LEVEL = 6


def accepted_encodings(accepted: bytes) -> set[bytes]:
    """Return the encodings that a client accepts, without those of weight 0."""
    usable = set()
    for each in accepted.lower().replace(b" ", b"").split(b","):
        name, _, weight = each.partition(b";q=")
        if not weight or weight.strip(b"0."):
            # `q=0`, in any spelling, rejects an encoding.
            usable.add(name)
    return usable


async def compress(response: Response, accepted: bytes) -> Response:
    """Return a response compressed if it is large and its client accepts that. `accepted`: its `Accept-Encoding`.

    For responses without secrets only: the length of a compressed body can give parts of it away to one who can add
    text to it."""
    headers = (*response.headers, _VARIES)
    if len(response.body) < _LEAST_BYTES or b"gzip" not in accepted_encodings(accepted):
        return replace(response, headers=headers)
    # In a thread: zlib works without the interpreter's lock, so other requests go on.
    body = await asyncio.to_thread(gzip.compress, response.body, _LEVEL, mtime=0)
    return replace(response, body=body, headers=(*headers, (b"content-encoding", b"gzip")))
