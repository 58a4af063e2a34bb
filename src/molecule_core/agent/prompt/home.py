"""The home of an agent: config.yaml, prompt files, rules, skills, files to share. Read whole, each time anew.

A mistake in it costs what it is about and is told; it never stops the agent.

Above: rebuilding, the command line. Below: own_files, plain_yaml, skills.
"""

from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from molecule_core.agent.prompt.safe_files import UnreadableFileError, list_folders, read_safe_file
from molecule_core.agent.prompt.safe_yaml import MAX_YAML_BYTES, InvalidYamlError, read_yaml
from molecule_core.agent.prompt.skills import MAX_SKILLS, SKILLS_FOLDER, InvalidSkillError, Skill, load_skill
from molecule_core.agent.sanitize import sanitize_line, strip_invisible

CONFIG_FILE = "config.yaml"
PROMPT_FILE = "system-prompt.md"
_MAX_FILE_BYTES = 256 << 10
# As a server takes them, if nobody has set other limits there.
_MAX_SHARED_BYTES = 64 << 10
_MAX_FILES = 64
DEFAULT_BUDGET_TOKENS = 24_000
"""Tokens of a prompt, if the configuration does not say how many."""
PathList = Annotated[list[str], Meta(max_length=_MAX_FILES)]


class HomeConfig(Struct, frozen=True, kw_only=True):
    """What config.yaml may say of prompts; all else in it is for others. `skills` left out: all there are, by name."""

    prompt_files: PathList | None = None
    skills: Annotated[list[str], Meta(max_length=MAX_SKILLS)] | None = None
    shared_context: PathList = []
    rules: PathList = []
    approval_rules: Annotated[list[dict[str, Any]], Meta(max_length=_MAX_FILES)] = []
    prompt_budget_tokens: Annotated[int, Meta(ge=500, le=2_000_000)] = DEFAULT_BUDGET_TOKENS
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
    budget: int = DEFAULT_BUDGET_TOKENS
    runtime: str = ""
    has_tools: bool = True
    tool_names: tuple[str, ...] | None = None
    """The tools that it has, if config.yaml names them."""
    warnings: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    """The files that config.yaml names, also those that are not there."""


def read_home(folder: Path) -> Home:
    """Everything that the home says. What is wrong with it stands in `warnings`."""
    warnings: list[str] = []
    config, broken = _read_config(folder, warnings)
    prompts = [PROMPT_FILE] if config.prompt_files is None else config.prompt_files
    shared = _shareable_paths(config.shared_context, prompts, warnings)
    return Home(
        prompts=_read_files(folder, prompts, _MAX_FILE_BYTES, warnings, "prompt file"),
        rules=_read_files(folder, config.rules, _MAX_FILE_BYTES, warnings, "rules"),
        skills=tuple(_load_skills(folder, config, warnings)),
        shared=None if broken else _read_files(folder, shared, _MAX_SHARED_BYTES, warnings, "shared file"),
        approval_rules=tuple(config.approval_rules),
        budget=config.prompt_budget_tokens,
        runtime=config.runtime,
        has_tools=bool(config.tools),
        tool_names=tuple(config.tools) if isinstance(config.tools, list) else None,
        warnings=tuple(warnings),
        paths=(*prompts, *config.rules, *config.shared_context),
    )


def _shareable_paths(paths: list[str], prompts: list[str], warnings: list[str]) -> list[str]:
    """What may be shared with children: not what makes an agent what it is, also where names do not tell case."""
    own = {each.casefold() for each in (CONFIG_FILE, PROMPT_FILE, *prompts)}
    for path in paths:
        if path.casefold() in own:
            warnings.append(
                f"shared file {sanitize_line(path)!r} is left out: an agent's own prompt and configuration are not shared; put "
                "what children may read into a file of its own"
            )
    return [each for each in paths if each.casefold() not in own]


def _read_config(folder: Path, warnings: list[str]) -> tuple[HomeConfig, bool]:
    try:
        return msgspec.convert(read_yaml(read_safe_file(folder, CONFIG_FILE, MAX_YAML_BYTES)), HomeConfig), False
    except UnreadableFileError as error:
        if error.is_missing:
            return HomeConfig(), False
        warnings.append(f"{CONFIG_FILE} is left out: {error}")
    except (InvalidYamlError, msgspec.ValidationError) as error:
        warnings.append(f"{CONFIG_FILE} is left out: {sanitize_line(str(error))}")
    return HomeConfig(), True


def _read_files(folder: Path, paths: list[str], max_bytes: int, warnings: list[str], what: str) -> tuple[HomeFile, ...]:
    found = []
    for path in paths:
        try:
            found.append(HomeFile(path, strip_invisible(read_safe_file(folder, path, max_bytes)).strip()))
        except UnreadableFileError as error:
            warnings.append(f"{what} {sanitize_line(path)!r} is left out: {error}")
    return tuple(found)


def _load_skills(folder: Path, config: HomeConfig, warnings: list[str]) -> list[Skill]:
    names, found = config.skills, []
    try:
        names = list_folders(folder, SKILLS_FOLDER, MAX_SKILLS) if names is None else names
    except UnreadableFileError as error:
        warnings.append(f"{SKILLS_FOLDER} is left out: {error}")
    for name in names or ():
        try:
            found.append(load_skill(folder, name))
        except InvalidSkillError as error:
            warnings.append(str(error))
    return found
