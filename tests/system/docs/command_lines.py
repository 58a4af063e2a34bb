"""Commands of a shell text, checked without running them: `molecule` against its click commands, scripts and files
against the checkout."""

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click

from molecule_core.cli import molecule
from testing.processes import ROOT
from testing.waits import PROCESS_START_SECONDS

_HEREDOC = re.compile(r"<<'?(\w+)'?[^\n]*\n.*?^\1$", re.M | re.S)
_SUBSTITUTION = re.compile(r"\$\(((?:[^()]|\([^()]*\))*)\)")
_ASSIGNMENT = re.compile(r"\w+=")
_SEPARATORS = "();<>|&\n"
_FOLDERS = ("deploy/", "requirements/", "examples/", "scripts/", "tests/", "docs/", ".ci/", "proofs/", "benchmarks/")
_PYTEST = ("scripts/test", "pytest")


def find_faults(text: str, root: Path = ROOT) -> list[str]:
    """Find what is wrong with a shell text: its syntax, unknown commands and options of `molecule`, missing files."""
    syntax = subprocess.run(
        ["bash", "-n"], input=text, capture_output=True, text=True, timeout=PROCESS_START_SECONDS, check=False
    )
    if syntax.returncode:
        return [syntax.stderr.strip()]
    return [fault for words in split_commands(text) for fault in find_command_faults(words, root)]


def find_command_faults(words: list[str], root: Path = ROOT, *, is_named: bool = False) -> Iterator[str]:
    """Find what is wrong with one command. `is_named`: a text only names it, so arguments may be missing."""
    name = Path(words[0]).name
    if name == "molecule":
        if fault := _find_usage_fault(words[1:], is_named=is_named):
            yield fault
    elif words[0].startswith("scripts/"):
        yield from _find_script_faults(words, root)
    for word in words:
        path = word.partition("::")[0]
        if path.startswith(_FOLDERS) and not any(root.glob(path.rstrip("/"))) and not set("$…") & set(path):
            yield f"{path}: no such file"


def split_commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each simple command of a shell text, those in `$(...)` too."""
    text = _without_comments(_HEREDOC.sub("", text)).replace("\\\n", " ")
    for found in _SUBSTITUTION.finditer(text):
        yield from split_commands(found[1])
    text = _SUBSTITUTION.sub("…", text)
    tokens = shlex.shlex(text, posix=True, punctuation_chars=_SEPARATORS)
    tokens.whitespace, tokens.commenters, tokens.whitespace_split = " \t\r", "", True
    words: list[str] = []
    redirected = False
    for token in tokens:
        if set(token) <= set("<>&") and set(token) & set("<>"):
            redirected = True
            if words[-1:] and re.fullmatch(r"[0-9]", words[-1]):
                words.pop()  # the number of what is redirected
        elif token and set(token) <= set(_SEPARATORS):
            yield from _command(words)
            words, redirected = [], False
        elif redirected:
            redirected = False
        else:
            words.append(token)
    yield from _command(words)


def _command(words: list[str]) -> Iterator[list[str]]:
    """Yield a command without what is before its name: assignments, `sudo -u USER`, the prompt of a console."""
    while words and (_ASSIGNMENT.match(words[0]) or words[0] in ("exec", "env", "{", "}", "!")):
        words = words[1:]
    if words[:2] == ["sudo", "-u"]:
        words = words[3:]
    if words and words[0] not in ("export", "cd"):
        yield words


def _without_comments(text: str) -> str:
    """Drop comments: `#` at the start of a word, outside quotes."""
    kept, quote, before = [], "", "\n"
    is_comment = False
    for character in text:
        if character == "\n":
            is_comment = False
        elif is_comment:
            continue
        elif quote:
            quote = "" if character == quote and before != "\\" else quote
        elif character in "'\"" and before != "\\":
            quote = character
        elif character == "#" and before.isspace():
            is_comment = True
            continue
        kept.append(character)
        before = character
    return "".join(kept)


def _find_usage_fault(arguments: list[str], *, is_named: bool = False) -> str:
    """Parse the arguments of `molecule` as its commands would, without running any."""
    path = ["molecule"]
    command: click.Command = molecule
    context = click.Context(command, info_name="molecule")
    while isinstance(command, click.Group):
        if not arguments or arguments[0] in ("--help", "--version", "$@", "…"):
            return ""
        if command is not molecule and command.invoke_without_command and arguments[0].startswith("-"):
            break
        name, *arguments = arguments
        found = command.get_command(context, name)
        if found is None:
            return f"{' '.join(path)} has no command {name!r}"
        command, context = found, click.Context(found, parent=context, info_name=name)
        path.append(name)
    if "--help" in arguments:
        return ""
    try:
        values, rest, _ = command.make_parser(context).parse_args(arguments)
    except click.UsageError as error:
        return f"{' '.join(path)}: {error.format_message()}"
    if rest:
        return f"{' '.join(path)}: one argument too many: {rest[0]}"
    missing = [
        each.human_readable_name
        for each in command.params
        if isinstance(each, click.Argument) and each.required and not _is_given(values.get(each.name or ""))
    ]
    return f"{' '.join(path)}: {missing[0]} is missing" if missing and not is_named else ""


def _is_given(value: object) -> bool:
    return isinstance(value, str | tuple | list) and len(value) > 0


def _find_script_faults(words: list[str], root: Path) -> Iterator[str]:
    """Find a script that does not exist, and options that its text does not name. Pytest's own options pass."""
    script = root / words[0]
    if not script.is_file():
        return  # find_command_faults reports it as a missing file
    text = script.read_text(encoding="utf-8")
    for word in words[1:]:
        option = word.partition("=")[0]
        if word.startswith("--") and option not in text and words[0] not in (*_PYTEST, "scripts/up"):
            yield f"{words[0]} does not know {option}"
    if words[0] == "scripts/up" and (fault := _find_usage_fault(["up", *words[1:]])):
        yield fault
