"""Real hosts, each as a person would start it without a screen, in a home of its own, with a model of ours."""

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from testing.waits import PROCESS_START_SECONDS
from tests.interop.installed_hosts import CLAUDE_CODE, CLAUDE_CODE_OLDER, CODEX, GEMINI, OPENCODE, Pinned
from tests.interop.model_endpoint import Endpoint
from tests.interop.model_protocols import Completions, Contents, Dialect, Messages, Responses

# No key of anybody's: hosts only want to see one.
KEY = "sk-ant-api03-" + "0" * 40
PROMPT = "Read your messages and answer them."
# A host starts, starts us, and asks its model up to five times.
_SESSION_SECONDS = PROCESS_START_SECONDS * 3


class Home(NamedTuple):
    """A throw-away home, and a project in it where the host works."""

    path: Path

    @property
    def project(self) -> Path:
        """The folder that the host is started in."""
        return self.path / "project"

    def place(self, file: str) -> Path:
        """A file as hosts are told where it lives: `~/` is the home, everything else the project."""
        return self.path / file[2:] if file.startswith("~/") else self.project / file

    def read(self, file: str) -> str:
        """A file's text; none if there is no such file."""
        path = self.place(file)
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def write(self, file: str, text: str) -> None:
        """A file with this text."""
        path = self.place(file)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


class RealHost(NamedTuple):
    """A host. `name`: what `molecule connect` calls it. `prefix`: what it puts before the names of our tools. `settle`:
    writes what a person has said once to its questions; `command` and `variables` start it; `unattended`: the command
    without flags that allow our tools. `over_http`: its file's
    text with our server at a url, the token in the variable MOLECULE_WORKSPACE_TOKEN."""

    name: str
    title: str
    pinned: Pinned
    prefix: str
    dialect: Callable[[], Dialect]
    settle: Callable[[Home, Endpoint], None]
    command: tuple[str, ...]
    variables: Callable[[Home, Endpoint], dict[str, str]]
    over_http: Callable[[str, str], str]
    unattended: tuple[str, ...] = ()

    @property
    def own_permissions(self) -> "RealHost":
        """The host as a person starts it who relies on what `molecule connect` has written."""
        return self._replace(command=self.unattended or self.command)


class Ran(NamedTuple):
    """What a host left behind."""

    code: int
    out: str
    err: str


async def run(host: RealHost, home: Home, endpoint: Endpoint, secrets: Mapping[str, str]) -> Ran:
    """Starts a host and waits for its end. Nothing of the caller's environment comes along but `secrets`, and all that
    is not loopback goes to the endpoint as a proxy, which tells of it."""
    environment = {"PATH": os.defpath, "LANG": "C.UTF-8", "TERM": "dumb", **outside_world(home, endpoint)}
    process = await asyncio.create_subprocess_exec(
        *host.pinned.command(),
        *host.command,
        cwd=home.project,
        env=environment | host.variables(home, endpoint) | dict(secrets),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(_SESSION_SECONDS):
            out, err = await process.communicate()
    finally:  # its servers too, should it have hung
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode is not None
    return Ran(process.returncode, out.decode(), err.decode())


def outside_world(home: Home, endpoint: Endpoint) -> dict[str, str]:
    """The home, and the endpoint as the proxy to everybody else."""
    proxies = {"HTTP_PROXY": endpoint.url, "HTTPS_PROXY": endpoint.url, "NO_PROXY": "127.0.0.1,localhost"}
    return {"HOME": str(home.path), **proxies}


# -- Claude Code -------------------------------------------------------------------------------------------------------


def _settle_claude(home: Home, _endpoint: Endpoint) -> None:
    project = {"hasTrustDialogAccepted": True, "enabledMcpjsonServers": ["molecule"]}
    known = {"approved": [KEY[-20:]], "rejected": []}
    answered = {"hasCompletedOnboarding": True, "theme": "dark", "customApiKeyResponses": known}
    home.write("~/.claude.json", json.dumps({**answered, "projects": {str(home.project): project}}))


def _claude_variables(_home: Home, endpoint: Endpoint) -> dict[str, str]:
    quiet = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    return {"ANTHROPIC_BASE_URL": endpoint.url, "ANTHROPIC_API_KEY": KEY, **quiet}


def _claude_over_http(_text: str, url: str) -> str:
    headers = {"Authorization": "Bearer ${MOLECULE_WORKSPACE_TOKEN}"}
    return json.dumps({"mcpServers": {"molecule": {"type": "http", "url": url, "headers": headers}}})


def session_environment(home: Home, endpoint: Endpoint) -> dict[str, str]:
    """Of a Claude Code with a screen. It may want to reach others, as channels need what its vendor says of them; all
    that leads there is the endpoint, which lets nobody through."""
    proxies = {"HTTP_PROXY": endpoint.url, "HTTPS_PROXY": endpoint.url, "NO_PROXY": "127.0.0.1,localhost"}
    person = {"HOME": str(home.path), "PATH": os.defpath, "LANG": "C.UTF-8", "TERM": "xterm-256color"}
    return {**person, **proxies, "ANTHROPIC_BASE_URL": endpoint.url, "ANTHROPIC_API_KEY": KEY}


CLAUDE = RealHost(
    name="claude-code",
    title="Claude Code",
    pinned=CLAUDE_CODE,
    prefix="mcp__molecule__",
    dialect=Messages,
    settle=_settle_claude,
    command=(
        *("-p", PROMPT, "--output-format", "stream-json", "--verbose"),
        *("--allowedTools", "mcp__molecule", "--permission-mode", "dontAsk"),
    ),
    variables=_claude_variables,
    over_http=_claude_over_http,
    unattended=("-p", PROMPT, "--output-format", "stream-json", "--verbose", "--permission-mode", "dontAsk"),
)

CLAUDE_OLDER = CLAUDE._replace(pinned=CLAUDE_CODE_OLDER)

# -- Codex -------------------------------------------------------------------------------------------------------------

_PROVIDER = """\
model = "scripted"
model_provider = "scripted"
check_for_update_on_startup = false

[analytics]
enabled = false

[features]
plugins = false

[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
env_key = "SCRIPTED_KEY"
wire_api = "responses"
"""


def _settle_codex(home: Home, endpoint: Endpoint) -> None:
    home.write("~/.codex/config.toml", _PROVIDER.format(url=endpoint.url))


def _codex_variables(_home: Home, _endpoint: Endpoint) -> dict[str, str]:
    return {"SCRIPTED_KEY": KEY}


def _codex_over_http(text: str, url: str) -> str:
    ours = {
        "url": url,
        "bearer_token_env_var": "MOLECULE_WORKSPACE_TOKEN",
        "required": True,
        "default_tools_approval_mode": "approve",
    }
    lines = [f"{name} = {json.dumps(value)}" for name, value in ours.items()]
    return "\n".join([text, "[mcp_servers.molecule]", *lines, ""])


CODEX_CLI = RealHost(
    name="codex",
    title="Codex",
    pinned=CODEX,
    prefix="mcp__molecule.",
    dialect=Responses,
    settle=_settle_codex,
    command=("exec", "--json", "--skip-git-repo-check", PROMPT),
    variables=_codex_variables,
    over_http=_codex_over_http,
)


# -- Gemini CLI --------------------------------------------------------------------------------------------------------


def _settle_gemini(home: Home, _endpoint: Endpoint) -> None:
    quiet = {"privacy": {"usageStatisticsEnabled": False}, "general": {"enableAutoUpdate": False}}
    chosen = {"security": {"auth": {"selectedType": "gemini-api-key"}}, **quiet}
    home.write("~/.gemini/settings.json", json.dumps(chosen))
    home.write("~/.gemini/trustedFolders.json", json.dumps({str(home.project): "TRUST_FOLDER"}))


def _gemini_variables(_home: Home, endpoint: Endpoint) -> dict[str, str]:
    one_process = {"GEMINI_CLI_NO_RELAUNCH": "true"}  # it starts itself a second time only to have more memory
    return {"GOOGLE_GEMINI_BASE_URL": endpoint.url, "GEMINI_API_KEY": KEY, **one_process}


def _gemini_over_http(text: str, url: str) -> str:
    ours = {"httpUrl": url, "headers": {"Authorization": "Bearer $MOLECULE_WORKSPACE_TOKEN"}}
    return json.dumps({**json.loads(text), "mcpServers": {"molecule": ours}})


GEMINI_CLI = RealHost(
    name="gemini",
    title="Gemini CLI",
    pinned=GEMINI,
    prefix="mcp_molecule_",
    dialect=Contents,
    settle=_settle_gemini,
    command=("-p", PROMPT, "--skip-trust", "--approval-mode", "yolo"),
    variables=_gemini_variables,
    over_http=_gemini_over_http,
    unattended=("-p", PROMPT),
)

# -- opencode ----------------------------------------------------------------------------------------------------------


def _settle_opencode(home: Home, endpoint: Endpoint) -> None:
    options = {"baseURL": f"{endpoint.url}/v1", "apiKey": KEY}
    provider = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"scripted": {}}}
    quiet = {"autoupdate": False, "share": "disabled"}
    chosen = {"model": "scripted/scripted", "small_model": "scripted/scripted", "provider": {"scripted": provider}}
    home.write("~/.config/opencode/opencode.json", json.dumps({**chosen, **quiet}))


def _opencode_variables(_home: Home, _endpoint: Endpoint) -> dict[str, str]:
    return {"OPENCODE_DISABLE_LSP_DOWNLOAD": "true", "OPENCODE_DISABLE_MODELS_FETCH": "true"}


def _opencode_over_http(text: str, url: str) -> str:
    headers = {"Authorization": "Bearer {env:MOLECULE_WORKSPACE_TOKEN}"}
    return json.dumps({**json.loads(text), "mcp": {"molecule": {"type": "remote", "url": url, "headers": headers}}})


OPENCODE_CLI = RealHost(
    name="opencode",
    title="opencode",
    pinned=OPENCODE,
    prefix="molecule_",
    dialect=Completions,
    settle=_settle_opencode,
    command=("run", PROMPT),
    variables=_opencode_variables,
    over_http=_opencode_over_http,
)

HOSTS = (CLAUDE, CODEX_CLI, GEMINI_CLI)
CONNECTED_HOSTS = (*HOSTS, OPENCODE_CLI)
"""Those that `molecule connect` is tried with."""
