"""Reads the settings of `molecule agent run` in `config.yaml`. docs/agent-run.md lists every key."""

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct, field

from molecule_core.agent.config import ConfigurationError
from molecule_core.agent.prompt.home import CONFIG_FILE
from molecule_core.agent.prompt.safe_files import UnreadableFileError, read_safe_file
from molecule_core.agent.prompt.safe_yaml import MAX_YAML_BYTES, InvalidYamlError, read_yaml
from molecule_core.agent.sanitize import sanitize_line
from molecule_core.tools.registry import TOOLS
from molecule_core.wire.schemas.approvals import ApprovalRule

Tokens = Annotated[int, Meta(ge=1)]
Name = Annotated[str, Meta(min_length=1, max_length=200)]


class Budget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Token limits; without one, the server's limit applies."""

    turn: Tokens | None = None
    thread: Tokens | None = None
    tree: Tokens | None = None


class RunConfig(Struct, frozen=True, kw_only=True):
    """Keys of the engine; other keys in the file are ignored."""

    model: Name
    """`provider:model`, or `scripted:file`."""
    effort: Literal["minimal", "low", "medium", "high"] | None = None
    base_url: str | None = None
    api_key_env: Name | None = None
    max_output_tokens: Tokens | None = None
    name: Annotated[str, Meta(max_length=120)] = ""
    description: Annotated[str, Meta(max_length=2000)] = ""
    budget: Budget = field(default_factory=Budget)
    tools: bool | list[str] = True
    compact_at_tokens: Annotated[int, Meta(ge=0)] = 100_000
    approval_rules: list[ApprovalRule] = []
    approval_wait_seconds: Annotated[int, Meta(ge=0, le=3600)] = 300
    parallel: Annotated[int, Meta(ge=1, le=64)] = 4
    samplings: Annotated[int, Meta(ge=1, le=10_000)] = 100
    sampling_seconds: Annotated[float, Meta(ge=1, le=86_400)] = 600
    tries: Annotated[int, Meta(ge=1, le=100)] = 6
    beat_seconds: Annotated[float, Meta(ge=0.05, le=20)] = 5
    tool_output_bytes: Annotated[int, Meta(ge=1000)] = 60_000


def read_run_config(folder: Path) -> RunConfig:
    """Read the file. Raises ConfigurationError: an error in the limits of an agent must not go unnoticed."""
    try:
        found = msgspec.convert(read_yaml(read_safe_file(folder, CONFIG_FILE, MAX_YAML_BYTES)), RunConfig)
    except (UnreadableFileError, InvalidYamlError, msgspec.ValidationError) as error:
        raise ConfigurationError(f"{folder / CONFIG_FILE}: {sanitize_line(str(error), 300)}") from None
    known = {spec.name for spec in TOOLS}
    unknown = [each for each in found.tools if each not in known] if isinstance(found.tools, list) else []
    if unknown:
        raise ConfigurationError(
            f"{folder / CONFIG_FILE}: tools: there is no tool {sanitize_line(unknown[0])!r}; docs/tools.md has all"
        )
    return found
