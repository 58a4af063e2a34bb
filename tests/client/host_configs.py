"""Configurations of hosts as people write them: with comments, trailing commas, odd indents, and all else in them."""

import json
from typing import Any

from hypothesis import strategies as st

from molecule_core.tools.host_config import toml_key, toml_value

NAMES = st.sampled_from(["mcpServers", "mcp", "theme", "molecule", "a", "ü", 'q"uote', "hooks", ""])
SCALARS: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-9, 10**6),
    st.text(max_size=8),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=12
)
_SERVER = st.fixed_dictionaries({"command": st.text(max_size=6), "args": st.lists(st.text(max_size=4), max_size=2)})
_SERVERS = st.dictionaries(st.sampled_from(["files", "web", "x.y"]), _SERVER, max_size=3)
COMMENTS = st.sampled_from(
    ["", " ", "\n", "\t", ' // a note, with "quotes" and {braces}\n', "/* and\n more, */", "\r\n"]
)


@st.composite
def jsonc(draw: st.DrawFn) -> str:
    """An object with whatever may stand between its signs."""
    document = draw(st.dictionaries(NAMES, VALUES, max_size=4))
    for name in ("mcpServers", "mcp", "hooks"):
        if name in document:
            document[name] = draw(_SERVERS)
    return draw(COMMENTS) + _spelled(draw, document) + draw(COMMENTS)


def _spelled(draw: st.DrawFn, value: Any) -> str:
    if not isinstance(value, (dict, list)) or not value:
        inside = draw(COMMENTS) if value in ({}, []) and isinstance(value, (dict, list)) else ""
        text = json.dumps(value, ensure_ascii=draw(st.booleans()))
        return text[0] + inside + text[1:] if inside else text
    if isinstance(value, dict):
        parts = [
            f"{json.dumps(name)}{draw(COMMENTS)}:{draw(COMMENTS)}{_spelled(draw, each)}" for name, each in value.items()
        ]
    else:
        parts = [_spelled(draw, each) for each in value]
    gaps = [draw(COMMENTS) for _ in range(2 * len(parts))]
    listed = ",".join(f"{gaps[2 * n]}{part}{gaps[2 * n + 1]}" for n, part in enumerate(parts))
    trailing = "," + draw(COMMENTS) if draw(st.booleans()) else ""
    open_, close = "{}" if isinstance(value, dict) else "[]"
    return open_ + listed + trailing + close


@st.composite
def strict(draw: st.DrawFn) -> str:
    """An object as programs write it."""
    document = draw(st.dictionaries(NAMES, VALUES, max_size=4))
    for name in ("mcpServers", "mcp", "hooks"):
        if name in document:
            document[name] = draw(_SERVERS)
    return json.dumps(document, indent=draw(st.sampled_from([None, 2, 4, "\t"]))) + draw(st.sampled_from(["", "\n"]))


PLAIN = st.one_of(st.booleans(), st.integers(-9, 99), st.text(max_size=6), st.lists(st.integers(0, 9), max_size=3))
_LINES = st.sampled_from(["", "# a note\n", "\n", "  \n", "#[mcp_servers.molecule]\n", "\r\n"])


@st.composite
def toml(draw: st.DrawFn) -> str:
    """A configuration of Codex: keys at the top, other servers in any of the ways in which a table can be written."""
    text = draw(_LINES)
    for name, value in draw(st.dictionaries(st.sampled_from(["model", "a b", "ü", "x"]), PLAIN, max_size=3)).items():
        text += f"{toml_key(name)} = {toml_value(value)}{draw(st.sampled_from(['', ' # why', '  ']))}\n{draw(_LINES)}"
    if draw(st.booleans()):
        text += f'note = """\n[mcp_servers.molecule]\n{draw(_LINES)}"""\n'
    for name, server in draw(_SERVERS).items():
        text += f"[mcp_servers.{toml_key(name)}]\n{draw(_LINES)}"
        text += "".join(f"{key} = {toml_value(each)}\n{draw(_LINES)}" for key, each in server.items())
        if draw(st.booleans()):
            text += f"[mcp_servers.{toml_key(name)}.env]\nA = 'b' # c\n{draw(_LINES)}"
    if draw(st.booleans()):
        text += "[[profiles]]\nname = '''\n#'''\n[profiles.deep]\nx = [1, # one\n 2]\n"
    return text if draw(st.booleans()) else text.removesuffix("\n").removesuffix("\r")
