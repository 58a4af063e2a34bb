"""Two organisations and everybody who might call: what the tests of who-may-what and of secrets need."""

from typing import NamedTuple

from testing.message_chains import frozen_chain
from testing.running_server import ADMIN_TOKEN, Running, Seat

UNKNOWN = "01900000-0000-7000-8000-00000000beef"
GARBAGE = "mol_ws_" + "A" * 43 + "00000000"


class Credential(NamedTuple):
    """A way to call: what it is, whose it is. `kind` is empty where nobody is proved."""

    token: str | None
    kind: str = ""
    org: str = ""
    role: str = ""
    workspace: str = ""


class Cast(NamedTuple):
    """Organisation A holds lead with own, peer and far below: own and peer are siblings, far is peer's child.
    Organisation B holds foreign. `gone` was a root of B and is removed. `roots`: of each organisation, the first
    message of a chain that is frozen. Own and foreign may broadcast."""

    org_a: str
    org_b: str
    own: Seat
    peer: Seat
    far: Seat
    foreign: Seat
    gone: Seat
    roots: dict[str, str]
    credentials: dict[str, Credential]


async def cast_of(server: Running) -> Cast:
    """Fills a server with the cast."""
    org_a, org_b = await server.org("A"), await server.org("B")
    lead = await server.seat("Lead", org_id=org_a)
    own = await server.seat("Own", org_id=org_a, parent_id=lead.id)
    peer = await server.seat("Peer", org_id=org_a, parent_id=lead.id)
    far = await server.seat("Far", org_id=org_a, parent_id=peer.id)
    foreign = await server.seat("Foreign", org_id=org_b)
    gone = await server.seat("Gone", org_id=org_b)
    await server.admin.call("DELETE", f"/workspaces/{gone.id}", query={"confirm": "true"})
    roots = {org: await frozen_chain(server, org, seat.id) for org, seat in ((org_a, own), (org_b, foreign))}
    for seat in (own, foreign):
        await server.let_broadcast(seat.id)
    credentials = {
        "none": Credential(None),
        "garbage": Credential(GARBAGE),
        "admin": Credential(ADMIN_TOKEN, "admin", role="owner"),
        **{role: await _person(server, org_a, role) for role in ("owner", "operator", "viewer")},
        "stranger": await _person(server, org_b, "owner"),
        "own": Credential(own.token, "workspace", org_a, "operator", own.id),
        "peer": Credential(peer.token, "workspace", org_a, "operator", peer.id),
        "far": Credential(far.token, "workspace", org_a, "operator", far.id),
        "foreign": Credential(foreign.token, "workspace", org_b, "operator", foreign.id),
        "runner": Credential(await _runner(server, org_a), "runner", org_a, "viewer"),
    }
    return Cast(org_a, org_b, own, peer, far, foreign, gone, roots, credentials)


async def _person(server: Running, org_id: str, role: str) -> Credential:
    answer = await server.admin.post(f"/orgs/{org_id}/people", {"name": f"{role} of {org_id}", "role": role})
    return Credential(answer["auth_token"], "person", org_id, role)


async def _runner(server: Running, org_id: str) -> str:
    answer = await server.admin.post(f"/orgs/{org_id}/runners", {"name": "Laptop"})
    return str(answer["token"])
