"""Plain words: texts for people outside the page, which help, the API document and the generated reference print."""

import re
from collections.abc import Iterator
from typing import Any

import click
import pytest

from molecule_core import cli
from molecule_core.api.openapi import build_document
from molecule_core.common.metrics import FAMILIES
from molecule_core.common.settings import Settings
from molecule_core.server.composition import Server
from molecule_core.wire.schemas.events import EVENTS
from tests.architecture.vocabulary import BANNED

_CODE = re.compile(r"`[^`]*`")
_DEFAULT = re.compile(r"\s*\[default: [^\]]*\]$")
Text = tuple[str, str]
"""Where a text is, and the text."""


def find_offences(texts: Iterator[Text] | list[Text], *, ends_with: str) -> dict[str, str]:
    """Return texts with a banned word, without a capital letter at the start, or with another end than `ends_with`.

    Text in backticks may have any words. A default in brackets may follow the end."""
    found: dict[str, str] = {}
    for where, text in texts:
        line = _DEFAULT.sub("", " ".join(text.split()))
        first = line.lstrip("`")[:1]
        if banned := BANNED.findall(_CODE.sub("``", line)):
            found[where] = f"{banned}: {line}"
        elif not line or (first.islower() and not line.startswith("`")):
            found[where] = f"no capital letter: {line}"
        elif not line.rstrip(")").endswith(ends_with) if ends_with else line.endswith("."):
            found[where] = f"another end: {line}"
    return found


# -- texts -------------------------------------------------------------------------------------------------------------


def list_commands() -> list[tuple[str, click.Command]]:
    """Return all commands by their full names."""

    def walk(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
        yield path, command
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                child = command.get_command(context, name)
                assert child is not None
                yield from walk(child, f"{path} {name}")

    return [*walk(cli.molecule, "molecule")]


def help_texts() -> Iterator[Text]:
    """Yield the help of each command and of each of its options, and the list of commands."""
    for path, command in list_commands():
        yield path, command.help or ""
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                yield f"{path} {parameter.opts[0]}", parameter.help or ""
    for name, (summary, _) in cli.COMMANDS.items():
        yield f"molecule: {name}", summary


def api_document() -> dict[str, Any]:
    """Return the OpenAPI document."""
    server = Server(Settings(state_dir="/nonexistent"), admin_token="a" * 64)
    return build_document(server.routes.routes, "0")


def summaries() -> Iterator[Text]:
    """Yield the summary of each route."""
    for path, operations in api_document()["paths"].items():
        for method, operation in operations.items():
            yield f"{method} {path}", operation["summary"]


def descriptions(value: Any, where: str = "openapi") -> Iterator[Text]:
    """Yield each description within a part of the OpenAPI document."""
    if isinstance(value, dict):
        for name, each in value.items():
            if name == "description" and isinstance(each, str):
                yield where, each
            else:
                yield from descriptions(each, f"{where} {name}")
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from descriptions(each, f"{where} {number}")


# -- tests -------------------------------------------------------------------------------------------------------------


def test_the_help_of_commands_and_options_is_plain() -> None:
    assert find_offences(help_texts(), ends_with=".") == {}


def test_the_summaries_of_routes_are_plain() -> None:
    assert find_offences(summaries(), ends_with="") == {}


def test_the_descriptions_of_the_api_are_plain() -> None:
    assert find_offences(descriptions(api_document()), ends_with=".") == {}


def test_the_descriptions_of_events_are_plain() -> None:
    assert find_offences([(name, event.description) for name, event in EVENTS.items()], ends_with=".") == {}


def test_the_descriptions_of_metrics_are_plain() -> None:
    assert find_offences([(name, family.description) for name, family in FAMILIES.items()], ends_with=".") == {}


@pytest.mark.parametrize(
    "text",
    [
        "Make a seat.",
        "Whose mail nobody takes.",
        "The server is told.",
        "list workspaces.",
        "List workspaces",
        "List workspaces  [default: all]",
        "",
    ],
)
def test_an_offending_text_is_found(text: str) -> None:
    assert list(find_offences([("here", text)], ends_with=".")) == ["here"]


@pytest.mark.parametrize("text", ["List workspaces.", "Name of the `seat`.", "Port.  [default: 8080]", "`open`: all."])
def test_a_plain_text_gives_no_offence(text: str) -> None:
    assert find_offences([("here", text)], ends_with=".") == {}


def test_a_summary_with_a_full_stop_is_found() -> None:
    assert list(find_offences([("a", "Get a file."), ("b", "Get a file")], ends_with="")) == ["a"]
