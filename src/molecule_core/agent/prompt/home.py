"""Reads the home of an agent: config.yaml, prompt files, rules, skills, files to share. Read as a whole each time.

A broken file costs only its own content and a warning; it never stops the agent.
"""

from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from molecule_core.agent.prompt.safe_files import UnreadableFileError, list_folders, read_safe_file
from molecule_core.agent.prompt.safe_yaml import MAX_YAML_BYTES, InvalidYamlError, read_yaml
from molecule_core.agent.prompt.skills import (
    DEFAULT_SKILL_BYTES,
    MAX_SKILLS,
    SKILLS_FOLDER,
    InvalidSkillError,
    Skill,
    load_skill,
)
from molecule_core.agent.sanitize import sanitize_line, strip_invisible

CONFIG_FILE = "config.yaml"
PROMPT_FILE = "system-prompt.md"
_MAX_FILE_BYTES = 256 << 10
# The server's default limits for shared files.
_MAX_SHARED_BYTES = 64 << 10
_MAX_FILES = 64
DEFAULT_BUDGET_TOKENS = 24_000
"""Token budget of a prompt, if the configuration sets none."""
PathList = Annotated[list[str], Meta(max_length=_MAX_FILES)]


class HomeConfig(Struct, frozen=True, kw_only=True):
    """The keys of config.yaml about prompts; other keys are ignored. Without `skills`: all existing ones, by name."""

    prompt_files: PathList | None = None
    skills: Annotated[list[str], Meta(max_length=MAX_SKILLS)] | None = None
    shared_context: PathList = []
    rules: PathList = []
    approval_rules: Annotated[list[dict[str, Any]], Meta(max_length=_MAX_FILES)] = []
    prompt_budget_tokens: Annotated[int, Meta(ge=500, le=2_000_000)] = DEFAULT_BUDGET_TOKENS
    skill_bytes: Annotated[int, Meta(ge=1, le=4 << 20)] = DEFAULT_SKILL_BYTES
    runtime: str = ""
    tools: bool | list[str] = True


class HomeFile(Struct, frozen=True):
    """A file of the home."""

    path: str
    text: str


class Home(Struct, frozen=True, kw_only=True):
    """Content of the home. `shared`: None if config.yaml is broken, so that the files to share are unknown."""

    prompts: tuple[HomeFile, ...] = ()
    rules: tuple[HomeFile, ...] = ()
    skills: tuple[Skill, ...] = ()
    shared: tuple[HomeFile, ...] | None = ()
    approval_rules: tuple[dict[str, Any], ...] = ()
    budget: int = DEFAULT_BUDGET_TOKENS
    runtime: str = ""
    has_tools: bool = True
    tool_names: tuple[str, ...] | None = None
    """Tools of the agent, if config.yaml names them."""
    warnings: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    """Files named in config.yaml, including missing ones."""


def read_home(folder: Path) -> Home:
    """Read the home. Problems are listed in `warnings`."""
    warnings: list[str] = []
    config, is_broken = _read_config(folder, warnings)
    prompts = [PROMPT_FILE] if config.prompt_files is None else config.prompt_files
    shared = _shareable_paths(config.shared_context, prompts, warnings)
    return Home(
        prompts=_read_files(folder, prompts, _MAX_FILE_BYTES, warnings, "prompt file"),
        rules=_read_files(folder, config.rules, _MAX_FILE_BYTES, warnings, "rules"),
        skills=tuple(_load_skills(folder, config, warnings)),
        shared=None if is_broken else _read_files(folder, shared, _MAX_SHARED_BYTES, warnings, "shared file"),
        approval_rules=tuple(config.approval_rules),
        budget=config.prompt_budget_tokens,
        runtime=config.runtime,
        has_tools=bool(config.tools),
        tool_names=tuple(config.tools) if isinstance(config.tools, list) else None,
        warnings=tuple(warnings),
        paths=(*prompts, *config.rules, *config.shared_context),
    )


def _shareable_paths(paths: list[str], prompts: list[str], warnings: list[str]) -> list[str]:
    """Return paths that may be shared with children, without the agent's own prompt and configuration in any case."""
    private_paths = {each.casefold() for each in (CONFIG_FILE, PROMPT_FILE, *prompts)}
    for path in paths:
        if path.casefold() in private_paths:
            warnings.append(
                f"shared file {sanitize_line(path)!r} is omitted: an agent's own prompt and configuration are not "
                "shared; put content for children into a separate file"
            )
    return [each for each in paths if each.casefold() not in private_paths]


def _read_config(folder: Path, warnings: list[str]) -> tuple[HomeConfig, bool]:
    try:
        return msgspec.convert(read_yaml(read_safe_file(folder, CONFIG_FILE, MAX_YAML_BYTES)), HomeConfig), False
    except UnreadableFileError as error:
        if error.is_missing:
            return HomeConfig(), False
        warnings.append(f"{CONFIG_FILE} is omitted: {error}")
    except (InvalidYamlError, msgspec.ValidationError) as error:
        warnings.append(f"{CONFIG_FILE} is omitted: {sanitize_line(str(error))}")
    return HomeConfig(), True


def _read_files(
    folder: Path, paths: list[str], max_bytes: int, warnings: list[str], label: str
) -> tuple[HomeFile, ...]:
    found = []
    for path in paths:
        try:
            found.append(HomeFile(path, strip_invisible(read_safe_file(folder, path, max_bytes)).strip()))
        except UnreadableFileError as error:
            warnings.append(f"{label} {sanitize_line(path)!r} is omitted: {error}")
    return tuple(found)


def _load_skills(folder: Path, config: HomeConfig, warnings: list[str]) -> list[Skill]:
    names, found = config.skills, []
    try:
        if names is None:
            names, links = list_folders(folder, SKILLS_FOLDER, MAX_SKILLS)
            warnings += [f"skill {sanitize_line(each)!r} is omitted: it is a link. Copy its folder" for each in links]
    except UnreadableFileError as error:
        warnings.append(f"{SKILLS_FOLDER} is omitted: {error}")
    for name in names or ():
        try:
            found.append(load_skill(folder, name, max_bytes=config.skill_bytes))
        except InvalidSkillError as error:
            warnings.append(str(error))
    return found
