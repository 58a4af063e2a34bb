"""What a holder of a secret does with it: as one should, and in every way one should not."""

import base64
import json
from collections.abc import Iterator
from urllib.parse import quote

from testing.raw_http import Headers

UNKNOWN = "01900000-0000-7000-8000-000000000000"
Request = tuple[str, str, bytes | None, Headers]


def calls(token: str, seat: str, org: str) -> Iterator[Request]:
    """The token in its place, with things that are there and that are not, with good bodies and broken ones."""
    own = {"Authorization": f"Bearer {token}"}
    one = f"/workspaces/{seat}"
    message = json.dumps({"params": {"message": {"parts": [{"kind": "text", "text": "hello"}]}}}).encode()
    for path in (
        one,
        "/workspaces",
        f"{one}/activity",
        f"{one}/chat-history",
        f"/orgs/{org}/people",
        f"/orgs/{org}/tree",
    ):
        yield "GET", path, None, own
    for path in (f"{one}/tokens", f"/registry/{seat}/peers", "/session", f"/orgs/{org}/snapshot", "/metrics", "/nope"):
        yield "GET", path, None, own
    yield "POST", "/registry/register", json.dumps({"id": seat, "agent_card": {"name": "x"}}).encode(), own
    yield "POST", "/registry/heartbeat", json.dumps({"workspace_id": seat}).encode(), own
    yield "POST", f"{one}/a2a", message, own
    yield "POST", f"/workspaces/{UNKNOWN}/a2a", message, own
    for body in (b"{", b"\xff", b'{"params": 7}', b"[" * 400):
        yield "POST", f"{one}/a2a", body, own
    yield "GET", one, None, {**own, "Host": "evil.example"}
    yield "GET", one, None, {**own, "X-Workspace-ID": "somebody-else"}
    yield "GET", f"{one}/activity?since_id=x", None, own


def misuses(token: str, admin: str, seat: str) -> Iterator[Request]:
    """The token where it should not be: in other headers, in paths and queries, in bodies and their broken members."""
    right, one = {"Authorization": f"Bearer {admin}"}, f"/workspaces/{seat}"
    for said in (f"Bearer {token}x", f"Bearer {token} {token}", f"Basic {token}", token, f"Bearer {token[:-1]}"):
        yield "GET", one, None, {"Authorization": said}
    basic = base64.b64encode(f"user:{token}".encode()).decode()
    yield "GET", one, None, {"Authorization": f"Basic {basic}"}
    yield "GET", one, None, {"Cookie": f"molecule={token}", "X-Api-Key": token, "X-Auth-Token": token}
    whole = quote(token, safe="")
    for path in (f"/nope/{whole}", f"{one}?token={whole}", f"/ws?token={whole}", f"{one}/activity?limit={whole}"):
        yield "GET", path, None, right
    yield "GET", f"{one}/activity?since_id={whole}", None, {}
    yield "POST", "/login", json.dumps({"code": token + "x"}).encode(), {"X-Molecule-Client": "proof"}
    for body in (f'{{"token": "{token}"', f"{token}", f'{{"{token}": }}', f'{{"a": "{token}\x01"}}'):
        yield "POST", f"{one}/a2a", body.encode(), right
    for member in ("tier", "max_concurrent_tasks", "agent_card", "parent_id"):
        yield "POST", "/workspaces", json.dumps({"name": 7, member: token}).encode(), right
    yield "PATCH", one, json.dumps({"tier": token}).encode(), right
    rpc = {"jsonrpc": "2.0", "id": 1, "method": token, "params": {}}
    yield "POST", f"{one}/a2a", json.dumps(rpc).encode(), {"Authorization": f"Bearer {token}x"}
