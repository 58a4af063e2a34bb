"""Reads and checks the org file of a company and lists its workspaces with their paths."""

import re
import tomllib
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from molecule_core.common.errors import BadSettings, MoleculeError
from molecule_core.common.limits import Limits
from molecule_core.common.text import validate_line, validate_name
from molecule_core.demo.model import Checks, DemoSkill, DemoWorkspace, Plan
from molecule_core.demo.text_analysis import ANY_NUMBER, split_words

# 50: each workspace is a process of about 30 MB, and a demo should fit on a small machine.
MAX_COMPANY_WORKSPACES = 50
_PLACEHOLDER = re.compile(r"\{[^}]*\}")
_PLACEHOLDERS = ("{thing}", "{things}")
_GUIDE = "See docs/reference/company-file.md."

WorkspacePath = tuple[str, ...]
"""Names from the root of the tree down to a workspace."""


class Company(Struct, frozen=True, forbid_unknown_fields=True):
    """A company as defined by its org file: a name and the root workspaces."""

    name: str
    seat: tuple[DemoWorkspace, ...]


class PlacedWorkspace(NamedTuple):
    """A workspace definition and its path in the tree."""

    path: WorkspacePath
    seat: DemoWorkspace


def list_company_workspaces(company: Company) -> list[PlacedWorkspace]:
    """Return all workspaces, parents before children."""
    return list(_iter_workspaces((), company.seat))


def _iter_workspaces(parent_path: WorkspacePath, seats: tuple[DemoWorkspace, ...]) -> Iterator[PlacedWorkspace]:
    for seat in seats:
        path = (*parent_path, seat.name)
        yield PlacedWorkspace(path, seat)
        yield from _iter_workspaces(path, seat.seat)


def packaged_company(file: str = "company.toml") -> Company:
    """Return a company that comes with Molecule."""
    return _parse_company(file, resources.files(__package__).joinpath(file).read_bytes())


def read_company(file: Path) -> Company:
    """Read the company of a file. Raises BadSettings with the file, the error and what to do."""
    try:
        content = file.read_bytes()
    except OSError as error:
        raise BadSettings(reason=f"the company file {file} cannot be read: {error.strerror}") from None
    return _parse_company(str(file), content)


def _parse_company(source: str, content: bytes) -> Company:
    try:
        return _check_company(msgspec.convert(tomllib.loads(content.decode()), Company))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadSettings(reason=f"the company file {source} is not TOML: {error}") from None
    except (msgspec.ValidationError, MoleculeError, RecursionError) as error:
        raise BadSettings(reason=f"the company file {source} cannot be used: {error}. {_GUIDE}") from None


# -- checks ------------------------------------------------------------------------------------------------------------


def _check_company(company: Company) -> Company:
    """Return the company with clean names. Raises MoleculeError, msgspec.ValidationError."""
    limits = Limits()
    clean = Company(validate_name(company.name, limits.name_length), _clean_workspaces((), company.seat, limits))
    found = list_company_workspaces(clean)
    if not found:
        raise msgspec.ValidationError("it has no workspace. Add one with `[[seat]]`")
    if len(found) > MAX_COMPANY_WORKSPACES:
        raise msgspec.ValidationError(
            f"it has {len(found)} workspaces, with one process each; the limit is {MAX_COMPANY_WORKSPACES}"
        )
    return clean


def _clean_workspaces(
    parent_path: WorkspacePath, seats: tuple[DemoWorkspace, ...], limits: Limits
) -> tuple[DemoWorkspace, ...]:
    clean = tuple(_clean_workspace(parent_path, seat, limits) for seat in seats)
    names = [seat.name for seat in clean]
    for name in names:
        if names.count(name) > 1:
            raise msgspec.ValidationError(f"two workspaces with the same parent are named {name!r}. Rename one")
    return clean


def _clean_workspace(parent_path: WorkspacePath, seat: DemoWorkspace, limits: Limits) -> DemoWorkspace:
    name = validate_name(seat.name, limits.name_length)
    path = (*parent_path, name)
    if len(path) > limits.tree_depth:
        raise msgspec.ValidationError(f"the tree must not be deeper than {limits.tree_depth} levels")
    role = validate_line(seat.role, limits.short_text_length, f"the role of {name!r}")
    examples = tuple(validate_line(each, limits.short_text_length, f"an example of {name!r}") for each in seat.examples)
    errors = (_behaviour_error(seat), _host_error(seat), _result_error(seat), *map(_skill_error, seat.craft))
    if error := next(filter(None, errors), ""):
        raise msgspec.ValidationError(f"the workspace {' / '.join(path)} {error}")
    below = _clean_workspaces(path, seat.seat, limits)
    return msgspec.structs.replace(seat, name=name, role=role, examples=examples, seat=below)


def _behaviour_error(seat: DemoWorkspace) -> str:
    if seat.behaviour == "specialist" and seat.seat:
        return "is a specialist, which asks no other workspace, but has workspaces below it. Make it a lead or a desk"
    if seat.behaviour != "specialist" and seat.host not in ("none", "agent"):
        return "asks other workspaces, which requires an agent without a host. Remove its host, or make it a specialist"
    if seat.stumbles and seat.host != "push":
        return 'has stumbles, which requires host = "push". Remove its stumbles'
    if seat.progress and seat.host in ("push", "stdout", "agent"):
        return "cannot report progress with this host. Remove its progress"
    if not seat.seat and not seat.craft:
        return "has neither a craft nor workspaces below it, so it cannot answer. Add a [[...craft]]"
    return ""


def _host_error(seat: DemoWorkspace) -> str:
    if seat.host == "agent" and (seat.behaviour != "lead" or seat.craft):
        return 'has host = "agent", which is only possible for a lead without crafts. Remove its host'
    if seat.examples and seat.host == "stdout":
        return "cannot have examples with this host. Remove its examples"
    if seat.prompt and seat.host in ("mcp", "stdout"):
        return "cannot have a prompt with this host. Remove its prompt"
    if seat.asks_before and (seat.behaviour != "specialist" or seat.host != "none"):
        return "has asks_before, which is only possible for a specialist without a host. Remove its asks_before"
    wordless = [word for word in seat.asks_before if not split_words(word)]
    return f"asks before {wordless[0]!r}, which is not a word" if wordless else ""


def _result_error(seat: DemoWorkspace) -> str:
    if seat.accept and (seat.behaviour == "specialist" or seat.host != "none"):
        return "has accept, which is only possible for a lead or a desk without a host. Remove its accept"
    if (seat.delivers or seat.cost is not None) and (seat.behaviour != "specialist" or seat.host != "none"):
        return "has delivers or cost, which is only possible for a specialist without a host. Remove them"
    if seat.hasty and not seat.delivers:
        return "has hasty, which requires delivers. Remove its hasty"
    return ""


def _skill_error(skill: DemoSkill) -> str:
    if isinstance(skill, Checks):
        for item in skill.items:
            if bool(item.when) == bool(item.unless):
                return f"has a check {item.say!r} that needs either `when` or `unless`"
            if wordless := [
                word for word in (*item.when, *item.unless) if word != ANY_NUMBER and not split_words(word)
            ]:
                return f"has a check {item.say!r} for {wordless[0]!r}, which is not a word"
    if isinstance(skill, Plan):
        for step in skill.steps:
            if unknown := [each for each in _PLACEHOLDER.findall(step) if each not in _PLACEHOLDERS]:
                return f"has a step with {unknown[0]}; steps know {' and '.join(_PLACEHOLDERS)}"
    return ""
