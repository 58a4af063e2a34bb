"""The program that hosts start: a small shell script in the state folder, which starts the installed Molecule.

A host's configuration names this script and no installation. If the installation is gone or was moved, the script
answers the host's handshake itself and says what to do: a host that waits for its servers works on, and its agent and
its person read the reason. Called by cli.
"""

import json
import os
import shlex
from pathlib import Path

from molecule_core.common.errors import CommandFailed
from molecule_core.tools.host_config import SERVER_ENTRY

FOLDER = "bin"
_FILE = "molecule"
_MODE = 0o700
_PROBLEM_TOOL = "molecule_problem"
_PROTOCOL_VERSION = "2025-11-25"


class HostLauncher:
    """The launcher of a state folder. `python` and `package`: the installation that it starts."""

    def __init__(self, state: Path, python: Path, package: Path) -> None:
        self.path = state.absolute() / FOLDER / _FILE
        self._python = python
        self._package = package

    def write(self) -> None:
        """Write the script; one that is up to date is left as it is. Raises CommandFailed."""
        text = render_launcher(self._python, self._package)
        try:
            if self.path.is_file() and self.path.read_text(encoding="utf-8", errors="replace") == text:
                return
            self.path.parent.mkdir(mode=_MODE, parents=True, exist_ok=True)
            unfinished = self.path.with_name(f".{_FILE}.{os.getpid()}.part")
            unfinished.write_text(text, encoding="utf-8")
            unfinished.chmod(_MODE)
            unfinished.replace(self.path)
        except OSError as error:
            raise CommandFailed(reason=f"{self.path} cannot be written: {error.strerror}") from None


def render_launcher(python: Path, package: Path) -> str:
    """Render the script for an installation: its interpreter and the folder of its package."""
    problem = (
        f"Molecule cannot start: it is no longer installed at {package}. Install it again, then run "
        "`molecule connect HOST --workspace NAME --apply` for this host."
    )
    words = {"PYTHON": str(python), "MAIN": str(package / "__main__.py"), "PROBLEM": problem, **_answers(problem)}
    assignments = "".join(f"{name}={shlex.quote(value)}\n" for name, value in words.items())
    return _SCRIPT.replace("#ASSIGNMENTS\n", assignments)


def _answers(problem: str) -> dict[str, str]:
    """Return the results of the methods, as JSON."""
    tool = {"name": _PROBLEM_TOOL, "description": problem, "inputSchema": {"type": "object"}}
    server = {"name": SERVER_ENTRY, "title": "Molecule", "version": "0"}
    handshake = {"capabilities": {"tools": {}}, "serverInfo": server, "instructions": problem}
    failed = {"content": [{"type": "text", "text": problem}], "isError": True}
    results = {"HANDSHAKE": handshake, "TOOLS": {"tools": [tool]}, "FAILED": failed}
    return {name: json.dumps(result, ensure_ascii=False) for name, result in results.items()}


# awk reads the top level of a message: a request's arguments may have members of the same names.
_SCRIPT = f"""#!/bin/sh
# Written by `molecule connect`. Starts Molecule for hosts of agents, without modules of the folder that is open there.
# If it is not installed any more, this script answers the host and says so.
#ASSIGNMENTS
if [ -x "$PYTHON" ] && [ -f "$MAIN" ]; then
    exec "$PYTHON" -P -m molecule_core "$@"
fi
case $1 in
inbox-hook | host-hook) exit 0 ;; # a hook that fails would block the person's prompt
mcp) echo "$PROBLEM" >&2 ;;
*) echo "$PROBLEM" >&2; exit 1 ;;
esac

member() {{ # member NAME: its JSON value in the top level of $line
    printf '%s\\n' "$line" | awk -v name="$1" '{{
        depth = 0; text = ""; quoted = 0; key = ""
        for (i = 1; i <= length($0); i++) {{
            c = substr($0, i, 1)
            if (quoted) {{
                text = text c
                if (c == "\\\\") {{ i++; text = text substr($0, i, 1) }} else if (c == "\\"") quoted = 0
                continue
            }}
            if (c == "\\"") {{ quoted = 1; text = text c; continue }}
            if (c == "{{" || c == "[") {{ depth++; if (depth == 1) {{ text = ""; continue }} }}
            if (c == "}}" || c == "]") depth--
            if ((depth == 1 && c == ",") || depth == 0) {{
                if (key == "\\"" name "\\"") {{ print text; exit }}
                key = ""; text = ""; continue
            }}
            if (depth == 1 && c == ":" && key == "") {{ key = text; text = ""; continue }}
            if (c != " " && c != "\\t" && c != "\\r") text = text c
        }}
    }}'
}}

answer() {{ printf '{{"jsonrpc":"2.0","id":%s,%s}}\\n' "$id" "$1"; }}

while IFS= read -r line; do
    id=$(member id)
    [ -n "$id" ] && [ "$id" != null ] || continue
    case $(member method) in
    '"initialize"')
        version=$(printf '%s\\n' "$line" | sed -nE 's/.*"protocolVersion"[[:space:]]*:[[:space:]]*("[0-9-]+").*/\\1/p')
        answer "\\"result\\":{{\\"protocolVersion\\":${{version:-\\"{_PROTOCOL_VERSION}\\"}},${{HANDSHAKE#?}}" ;;
    '"ping"') answer '"result":{{}}' ;;
    '"tools/list"') answer "\\"result\\":$TOOLS" ;;
    '"tools/call"') answer "\\"result\\":$FAILED" ;;
    *) answer '"error":{{"code":-32601,"message":"Method not found"}}' ;;
    esac
done
"""
