"""Reads the settings of `molecule agent run` in `config.yaml`. docs/reference/configuration.md lists every key."""

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
    """`provider:model`, such as `openai:gpt-5`, or `scripted:rules.yaml` for a file of rules."""
    effort: Literal["minimal", "low", "medium", "high"] | None = None
    """Reasoning effort: `minimal`, `low`, `medium` or `high`; without it the provider's default."""
    base_url: str | None = None
    """Address of the model API; an unknown provider is called with the OpenAI protocol there."""
    api_key_env: Name | None = None
    """Variable that holds the API key; without it the one that the provider's own SDK reads."""
    max_output_tokens: Tokens | None = None
    """Output tokens of one request."""
    name: Annotated[str, Meta(max_length=120)] = ""
    """Name in the agent card."""
    description: Annotated[str, Meta(max_length=2000)] = ""
    """Description in the agent card; peers choose by it."""
    examples: Annotated[list[Annotated[str, Meta(min_length=1, max_length=120)]], Meta(max_length=5)] = []
    """Example requests; the page offers them while the chat with the agent is empty."""
    budget: Budget = field(default_factory=Budget)
    """Token budgets, see below."""
    tools: bool | list[str] = True
    """All tools, none, or a list of names. Tools that read the inbox are never offered."""
    compact_at_tokens: Annotated[int, Meta(ge=0)] = 100_000
    """A thread with more tokens is summarised before the next request; 0: never."""
    approval_rules: list[ApprovalRule] = []
    """Tool calls that need an approval."""
    approval_wait_seconds: Annotated[int, Meta(ge=0, le=3600)] = 300
    """How long a call waits for the decision; a later decision arrives as a message."""
    parallel: Annotated[int, Meta(ge=1, le=64)] = 4
    """Requests to the model at once."""
    samplings: Annotated[int, Meta(ge=1, le=10_000)] = 100
    """Requests to the model in one turn."""
    sampling_seconds: Annotated[float, Meta(ge=1, le=86_400)] = 600
    """Timeout of one request."""
    tries: Annotated[int, Meta(ge=1, le=100)] = 6
    """Attempts of one request."""
    beat_seconds: Annotated[float, Meta(ge=0.05, le=20)] = 5
    """How often a running turn checks whether it was stopped."""
    tool_output_bytes: Annotated[int, Meta(ge=1000)] = 60_000
    """Longest tool output; the rest is dropped."""


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
            f"{folder / CONFIG_FILE}: tools: tool {sanitize_line(unknown[0])!r} not found; "
            "docs/reference/tools.md lists all tools"
        )
    return found
