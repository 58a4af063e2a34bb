"""The home of an agent: config.yaml, prompt files, rules, skills, files to share. Read whole, each time anew.

A mistake in it costs what it is about and is told; it never stops the agent.

Above: rebuilding, the command line. Below: own_files, plain_yaml, skills.
"""

from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from molecule_core.agent.neutral import line, visible
from molecule_core.agent.own_files import Unreadable, folders_of, read_own
from molecule_core.agent.plain_yaml import MOST_BYTES, BadYaml, read_yaml
from molecule_core.agent.skills import FOLDER, MOST_SKILLS, BadSkill, Skill, load_skill

CONFIG = "config.yaml"
PROMPT_FILE = "system-prompt.md"
_FILE_BYTES = 256 << 10
# As a server takes them, if nobody has set other limits there.
_SHARED_BYTES = 64 << 10
_MOST_FILES = 64
BUDGET = 24_000
"""Tokens of a prompt, if the configuration does not say how many."""
Names = Annotated[list[str], Meta(max_length=_MOST_FILES)]


class HomeConfig(Struct, frozen=True, kw_only=True):
    """What config.yaml may say of prompts; all else in it is for others. `skills` left out: all there are, by name."""

    prompt_files: Names | None = None
    skills: Annotated[list[str], Meta(max_length=MOST_SKILLS)] | None = None
    shared_context: Names = []
    rules: Names = []
    approval_rules: Annotated[list[dict[str, Any]], Meta(max_length=_MOST_FILES)] = []
    prompt_budget_tokens: Annotated[int, Meta(ge=500, le=2_000_000)] = BUDGET
    runtime: str = ""
    tools: bool | list[str] = True


class HomeFile(Struct, frozen=True):
    """A file of the home."""

    path: str
    text: str


class Home(Struct, frozen=True, kw_only=True):
    """What was found. `shared` is None if it cannot be known what is to be shared: config.yaml is broken."""

    prompts: tuple[HomeFile, ...] = ()
    rules: tuple[HomeFile, ...] = ()
    skills: tuple[Skill, ...] = ()
    shared: tuple[HomeFile, ...] | None = ()
    approval_rules: tuple[dict[str, Any], ...] = ()
    budget: int = BUDGET
    runtime: str = ""
    tools: bool = True
    only: tuple[str, ...] | None = None
    """The tools that it has, if config.yaml names them."""
    warnings: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    """The files that config.yaml names, also those that are not there."""


def read_home(folder: Path) -> Home:
    """Everything that the home says. What is wrong with it stands in `warnings`."""
    warnings: list[str] = []
    config, broken = _config(folder, warnings)
    prompts = [PROMPT_FILE] if config.prompt_files is None else config.prompt_files
    shared = _to_share(config.shared_context, prompts, warnings)
    return Home(
        prompts=_files(folder, prompts, _FILE_BYTES, warnings, "prompt file"),
        rules=_files(folder, config.rules, _FILE_BYTES, warnings, "rules"),
        skills=tuple(_skills(folder, config, warnings)),
        shared=None if broken else _files(folder, shared, _SHARED_BYTES, warnings, "shared file"),
        approval_rules=tuple(config.approval_rules),
        budget=config.prompt_budget_tokens,
        runtime=config.runtime,
        tools=bool(config.tools),
        only=tuple(config.tools) if isinstance(config.tools, list) else None,
        warnings=tuple(warnings),
        paths=(*prompts, *config.rules, *config.shared_context),
    )


def _to_share(paths: list[str], prompts: list[str], warnings: list[str]) -> list[str]:
    """What may be shared with children: not what makes an agent what it is, also where names do not tell case."""
    own = {each.casefold() for each in (CONFIG, PROMPT_FILE, *prompts)}
    for path in paths:
        if path.casefold() in own:
            warnings.append(
                f"shared file {line(path)!r} is left out: an agent's own prompt and configuration are not shared; put "
                "what children may read into a file of its own"
            )
    return [each for each in paths if each.casefold() not in own]


def _config(folder: Path, warnings: list[str]) -> tuple[HomeConfig, bool]:
    try:
        return msgspec.convert(read_yaml(read_own(folder, CONFIG, MOST_BYTES)), HomeConfig), False
    except Unreadable as error:
        if error.missing:
            return HomeConfig(), False
        warnings.append(f"{CONFIG} is left out: {error}")
    except (BadYaml, msgspec.ValidationError) as error:
        warnings.append(f"{CONFIG} is left out: {line(str(error))}")
    return HomeConfig(), True


def _files(folder: Path, paths: list[str], most: int, warnings: list[str], what: str) -> tuple[HomeFile, ...]:
    found = []
    for path in paths:
        try:
            found.append(HomeFile(path, visible(read_own(folder, path, most)).strip()))
        except Unreadable as error:
            warnings.append(f"{what} {line(path)!r} is left out: {error}")
    return tuple(found)


def _skills(folder: Path, config: HomeConfig, warnings: list[str]) -> list[Skill]:
    names, found = config.skills, []
    try:
        names = folders_of(folder, FOLDER, MOST_SKILLS) if names is None else names
    except Unreadable as error:
        warnings.append(f"{FOLDER} is left out: {error}")
    for name in names or ():
        try:
            found.append(load_skill(folder, name))
        except BadSkill as error:
            warnings.append(str(error))
    return found
