"""What every refusal must be like."""

import re

from testing.raw_http import Reply

_LEAKS = re.compile(
    r"Traceback|File \"|\.py\b|SELECT |INSERT |sqlite|asyncpg|postgres|/src/|molecule_core", re.IGNORECASE
)
_SENTENCE = re.compile(r"[A-Za-z].{9,}", re.DOTALL)


def check_refusal(reply: Reply, *allowed: int) -> Reply:
    """A refusal as every refusal must be: 4xx, problem details, a sentence for people, nothing of our inside."""
    assert 400 <= reply.status < 500, reply
    assert not allowed or reply.status in allowed, reply
    assert reply.headers["content-type"] == "application/json"
    problem = reply.json
    text = problem["error"]
    if isinstance(text, dict):  # a refusal in JSON-RPC
        assert problem["jsonrpc"] == "2.0"
        text = text["message"]
    else:
        assert problem["status"] == reply.status
        assert problem["detail"] == text
        assert problem["code"] and problem["title"] and problem["type"]
    assert _SENTENCE.search(text) or text in ("workspace removed",), text
    assert not _LEAKS.search(reply.body.decode()), reply
    return reply
