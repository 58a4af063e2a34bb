"""How shapes of the wire become types of the canvas."""

from typing import Annotated, Any, Literal

import pytest
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from molecule_core.wire.schemas import live
from molecule_core.wire.schemas.events import EVENTS
from scripts import typescript


class Part(Struct):
    """A part."""

    number: Annotated[int, Meta(ge=0)]


class Whole(Struct, tag="whole"):
    """Has one of
    each */ kind."""

    text: str
    maybe: str | None
    raw: Raw
    maybe_raw: Raw | None
    anything: Any
    share: float
    yes: bool
    part: Part
    parts: list[Part]
    lists: list[dict[str, Any]]
    either: list[int | str]
    word: Literal["a", "b"]
    unset: str | UnsetType = UNSET
    unset_or_none: str | UnsetType | None = UNSET
    default: int = 3


class Omitting(Struct, omit_defaults=True):
    always: str | None
    text: str | None = None
    count: int | None = 3
    parts: list[Part] = []


def members(shape: type[Struct]) -> dict[str, str]:
    lines = [line.strip().removesuffix(";") for line in typescript.interface(shape) if line.startswith("  ")]
    return dict(line.split(": ", 1) for line in lines)


def test_each_kind_of_member_has_its_type() -> None:
    assert members(Whole) == {
        "type": '"whole"',
        "text": "string",
        "maybe": "string | null",
        "raw": "unknown",
        "maybe_raw": "unknown",
        "anything": "unknown",
        "share": "number",
        "yes": "boolean",
        "part": "Part",
        "parts": "Part[]",
        "lists": "Array<Record<string, unknown>>",
        "either": "Array<number | string>",
        "word": '"a" | "b"',
        "unset?": "string",
        "unset_or_none?": "string | null",
        "default": "number",
    }


def test_what_is_omitted_may_be_missing_and_is_null_only_if_that_is_no_default() -> None:
    assert members(Omitting) == {
        "always": "string | null",
        "text?": "string",
        "count?": "number | null",
        "parts?": "Part[]",
    }


def test_the_page_may_leave_out_what_the_server_has_a_default_for() -> None:
    assert members(live.SubscribeFrame) == {"type": '"subscribe"', "after?": "number | null", "epoch?": "string | null"}


def test_a_docstring_cannot_end_the_comment_it_becomes() -> None:
    assert next(line for line in typescript.interface(Whole) if line) == "/** Has one of each kind. */"


def test_a_type_that_is_not_translated_stops_the_making() -> None:
    class Odd(Struct):
        content: bytes

    with pytest.raises(KeyError):
        list(typescript.interface(Odd))


def test_every_event_and_every_frame_is_in_the_page() -> None:
    page = "\n".join(typescript.page())
    for name, shape in EVENTS.items():
        assert f"  {name}: {shape.payload.__name__};" in page
        assert f'  "{name}",' in page
    assert (
        "export type ServerFrame = HelloFrame | ResumedFrame | CurrentFrame | SnapshotRequiredFrame | PingFrame;"
        in page
    )
    assert "EventDefinition" not in page
    assert page == "\n".join(typescript.page())
