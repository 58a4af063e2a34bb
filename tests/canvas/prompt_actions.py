"""Agents of the company that tell their prompts."""

from typing import Any

from molecule_core.wire.schemas.prompts import estimate_tokens, hash_text
from testing.canvas.company import Stage


async def tell_prompt(
    stage: Stage, name: str, texts: dict[tuple[int, str], str], kind: str, detail: str = ""
) -> list[int]:
    """An agent tells the prompt that it has put together; the tokens of its sections."""
    sections = [
        {
            **{"part": part, "kind": "file", "title": title, "source": f"file:{title}", "text": text},
            **{"bytes": len(text.encode()), "tokens": estimate_tokens(len(text.encode())), "hash": hash_text(text)},
        }
        for (part, title), text in texts.items()
    ]
    tokens = [int(str(each["tokens"])) for each in sections]
    build: dict[str, Any] = {"sections": sections, "trigger": {"kind": kind, "detail": detail}, "tokens": sum(tokens)}
    build |= {
        "hash": hash_text("\n".join(texts.values())),
        "budget": 1000,
        "warnings": ["team.md looks odd"],
    }
    seat = stage.seats[name]
    await seat.api.call("PUT", f"/workspaces/{seat.id}/prompt", body=build)
    return tokens
