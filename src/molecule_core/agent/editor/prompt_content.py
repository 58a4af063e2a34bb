"""Turns the blocks of a prompt into the text of a message and its files. Pure."""

import base64
import binascii
from typing import Any
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from molecule_core.agent.editor.connection import INVALID_PARAMS, EditorError

Members = dict[str, Any]
_SUFFIXES = {"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp"}
_BINARY = "application/octet-stream"
_TEXT = "text/plain"


class PromptFile(Struct, frozen=True):
    """A file of a prompt."""

    name: str
    mime_type: str
    content: bytes


class PromptContent(Struct, frozen=True):
    """The text of a prompt, and its files in order."""

    text: str
    files: tuple[PromptFile, ...]


def parse_prompt(blocks: list[Members]) -> PromptContent:
    """Return the content of a prompt. Raises EditorError for a block that cannot be sent."""
    texts: list[str] = []
    files: list[PromptFile] = []
    for block in blocks:
        match block["type"]:
            case "text":
                texts.append(block["text"])
            case "resource_link":
                texts.append(f"[{block['name']}]({block['uri']})")
            case "image":
                files.append(_image_file(block, len(files) + 1))
            case "resource":
                files.append(_resource_file(block["resource"]))
                texts.append(f"[{files[-1].name}]")
            case kind:
                raise EditorError(INVALID_PARAMS, f"A block of type {kind} cannot be sent. Remove it from the prompt.")
    text = "".join(texts).strip()
    if not text and not files:
        raise EditorError(INVALID_PARAMS, "The prompt is empty. Write a text.")
    return PromptContent(text, tuple(files))


def _image_file(block: Members, number: int) -> PromptFile:
    mime_type = str(block["mimeType"])
    name = _name_of(block.get("uri") or "") or f"image-{number}{_SUFFIXES.get(mime_type, '')}"
    return PromptFile(name, mime_type, _decode(block["data"], name))


def _resource_file(resource: Members) -> PromptFile:
    name = _name_of(resource["uri"]) or "resource"
    if isinstance(resource.get("text"), str):
        return PromptFile(name, str(resource.get("mimeType") or _TEXT), resource["text"].encode())
    return PromptFile(name, str(resource.get("mimeType") or _BINARY), _decode(resource.get("blob", ""), name))


def _name_of(uri: str) -> str:
    """Return the last part of an address, without what follows the path."""
    try:
        return unquote(urlsplit(uri).path).replace("\\", "/").rstrip("/").rpartition("/")[2]
    except ValueError:
        return ""


def _decode(data: str, name: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise EditorError(INVALID_PARAMS, f"The content of {name} is not Base64. Attach the file again.") from None
