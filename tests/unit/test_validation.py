"""Validation errors become the sentences of the product: what is wrong, with its limit, and what to use instead."""

import enum
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta, Struct

from molecule_core.common.validation import validation_error_text


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Part(Struct):
    size: int


class Body(Struct, forbid_unknown_fields=True):
    port: Annotated[int, Meta(ge=0, le=65535)] = 0
    step: Annotated[int, Meta(multiple_of=5)] = 5
    name: Annotated[str, Meta(min_length=1, max_length=3)] = "a"
    code: Annotated[str, Meta(pattern="^a$")] = "a"
    colour: Colour = Colour.RED
    level: Literal["info", "error"] | None = None
    at: datetime | None = None
    parts: Annotated[list[Part], Meta(max_length=1)] = []
    by_name: dict[str, int] = {}
    flag: bool = True
    ratio: float = 0.0
    pair: tuple[int, int] = (0, 0)


def text_of(value: Any, **options: Any) -> str:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert(value, Body, **options)
    return validation_error_text(caught.value, value=value, shape=Body)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"port": 99999}, "port cannot be 99999. Use a number of at most 65535."),
        ({"port": -1}, "port cannot be -1. Use a number of at least 0."),
        ({"port": "x"}, "port cannot be text. Use a whole number."),
        ({"port": None}, "port cannot be null. Use a whole number."),
        ({"port": 1.5}, "port cannot be a fraction. Use a whole number."),
        ({"port": 10**30}, "port cannot be this number. Use a number of at most 65535."),
        ({"step": 7}, "step cannot be 7. Use a multiple of 5."),
        ({"name": ""}, "name cannot be empty. Use at least 1 character."),
        ({"name": "abcd"}, "name cannot have 4 characters. Use at most 3 characters."),
        ({"code": "b"}, "code cannot have this value. Use the documented form."),
        ({"colour": "green"}, "colour cannot have this value. Use red or blue."),
        ({"colour": 1}, "colour cannot be a whole number. Use red or blue."),
        ({"level": "loud"}, "level cannot have this value. Use error or info."),
        ({"at": "noon"}, "at cannot have this value. Use a time such as 2026-11-21T09:00:00Z."),
        ({"parts": [{"size": "x"}]}, "parts[0].size cannot be text. Use a whole number."),
        ({"parts": [{}]}, "parts[0].size is missing. Add it."),
        ({"parts": [{"size": 1}] * 2}, "parts cannot have 2 entries. Use at most 1 entry."),
        ({"by_name": {"a": "x"}}, "by_name[...] cannot be text. Use a whole number."),
        ({"by_name": {1: 1}}, "a key of by_name cannot have this value. Use another key."),
        ({"flag": 1}, "flag cannot be a whole number. Use true or false."),
        ({"ratio": []}, "ratio cannot be a list. Use a number."),
        ({"pair": [1]}, "pair cannot have 1 entry. Use exactly 2 entries."),
        ({"prot": 1}, "prot is not a known name. Remove it, or correct its spelling."),
        ([], "the body cannot be a list. Use an object."),
    ],
)
def test_each_kind_of_mistake_is_named_with_its_limit(value: Any, text: str) -> None:
    assert text_of(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"port": "99999"}, "port cannot be 99999. Use a number of at most 65535."),
        ({"port": "x"}, "port cannot be text. Use a whole number."),
    ],
)
def test_a_setting_given_as_text_is_named_as_well(value: Any, text: str) -> None:
    assert text_of(value, strict=False) == text


@pytest.mark.parametrize("name", ["name", "colour", "level", "at", "code", "port", "flag"])
def test_a_text_is_never_repeated(name: str) -> None:
    secret = "sk-ant-0123456789"
    assert secret not in text_of({name: secret})


def test_an_unknown_name_is_cut() -> None:
    assert len(text_of({"x" * 10_000: 1})) < 200


def test_the_whole_value_has_the_name_that_it_is_given() -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert([], Body)
    assert validation_error_text(caught.value, subject="params") == "params cannot be a list. Use an object."
