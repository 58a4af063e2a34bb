"""Who asks, what there is to ask about, and how one asks: a server with a little of everything in it."""

import re
from collections import deque
from random import Random
from typing import Any
from urllib.parse import quote, urlencode

from msgspec import Struct

from proofs.harness.caller import Caller, Refused
from proofs.harness.serving import ADMIN_TOKEN
from proofs.http.made import Made
from tests.journeys.rawhttp import Reply, request

# What is learned from answers: members with the names of placeholders, and what else they are called.
_NAMES = (
    "activity_id approval_id delegation_id file_id memory_id root_id template_id thread_id token_id turn_id".split()
)
_LEARNED = re.compile(rb'"(%b)":"([\w.:-]{1,80})"' % "|".join(_NAMES).encode())
_MOST_LEARNED = 60
# Who is asked about: mostly something that is there.
_REAL, _OWN = 0.85, 0.7
# What ends things does not get to those that others still need.
_ENDS = re.compile(r"/(rotate|collapse|pause|hibernate|tokens|logout|delete|prune|expand|prompt-template)\b")
_VISIBLE = re.compile(r"[\x20-\x7e\xa0-\xff]*")


class Who(Struct):
    """A caller. `seat`: the workspace that is its own, or that it asks about first."""

    name: str
    token: str | None
    seat: str


class Scene:
    """An organisation with seats, persons, mail, work, an approval, a thread; and what was learned of since."""

    def __init__(self, dice: Random) -> None:
        self.callers: list[Who] = []
        self.spare: list[str] = []
        self._dice = dice
        self._known: dict[str, deque[str]] = {}
        self._spare_people: list[str] = []
        self._key = 0

    async def found(self, port: int) -> None:
        """Makes all of it."""
        async with Caller(port, ADMIN_TOKEN) as admin:
            org = (await admin.get("/orgs"))[0]["id"]
            self._learn("org_id", org, (await admin.post("/orgs", {"name": "Other"}))["id"])
            lead = await admin.post("/workspaces", {"name": "Lead"})
            seats = [await admin.post("/workspaces", {"name": f"Seat {n}", "parent_id": lead["id"]}) for n in range(2)]
            self.spare = [(await admin.post("/workspaces", {"name": f"Spare {n}"}))["id"] for n in range(30)]
            people = f"/orgs/{org}/people"
            person = await admin.post(people, {"name": "Owner", "role": "owner"})
            viewer = await admin.post(people, {"name": "Viewer", "role": "viewer"})
            self._spare_people = [(await admin.post(people, {"name": f"Person {n}"}))["id"] for n in range(30)]
            first, second = seats[0]["id"], seats[1]["id"]
            tokens = [each["connection"]["auth_token"] for each in seats]
            self.callers = [
                Who("nobody", None, first),
                Who("the operator", ADMIN_TOKEN, first),
                Who("a person", person["auth_token"], first),
                Who("a person who may only look", viewer["auth_token"], first),
                Who("a workspace", tokens[0], first),
                Who("another workspace", tokens[1], second),
            ]
            self._learn("id", first, second, lead["id"])
            for number in range(4):
                message = {"role": "user", "parts": [{"kind": "text", "text": f"Question {number}?"}]}
                await admin.post(f"/workspaces/{first}/a2a", {"params": {"message": message}})
        async with Caller(port, tokens[0]) as seat:
            rows = await seat.get(f"/workspaces/{first}/activity", claim=60, wait=0)
            self._learn("activity_id", *(row["id"] for row in rows))
            task = {"target_id": second, "task": "sort the mail"}
            self._learn("delegation_id", (await seat.post(f"/workspaces/{first}/delegate", task))["delegation_id"])
            asked = await seat.post(f"/workspaces/{first}/approvals", {"action": "open the shop"})
            self._learn("approval_id", asked["approval_id"])
            start = {"base_instructions": "Be kind.", "input": "hello"}
            thread = await seat.post(f"/workspaces/{first}/threads", start)
            self._learn("thread_id", thread["thread_id"])
            self._learn("turn_id", thread["queued"][0])

    def _learn(self, name: str, *ids: str) -> None:
        self._known.setdefault(name, deque(maxlen=_MOST_LEARNED)).extend(ids)

    def learn(self, reply: Reply) -> None:
        """Takes what an answer names into what is asked about later."""
        if reply.status < 300:
            for name, id_ in _LEARNED.findall(reply.body[:4000]):
                self._learn(name.decode(), id_.decode())

    def written(self, made: Made, who: Who) -> bytes:
        """The bytes of a request, about something that mostly is there."""
        params = {name: self._about(name, value, made, who) for name, value in made.params.items()}
        path = made.path
        for name, value in params.items():
            path = path.replace(f"{{{name}}}", quote(value, safe="/" if name == "path" else "", errors="replace"))
        query = f"?{urlencode(made.query, errors='replace')}" if made.query else ""
        headers = {n: v for n, v in made.headers.items() if _VISIBLE.fullmatch(n + v) and n.lower() != "authorization"}
        headers |= {"X-Molecule-Client": "proof", "Accept": "application/json, text/event-stream"}
        return request(made.method, path + query, made.body, token=who.token, headers=headers)

    def _about(self, name: str, value: str, made: Made, who: Who) -> str:
        dice = self._dice
        if dice.random() > _REAL:
            return value or "-"
        if name == "person_id":
            return dice.choice(self._spare_people)
        if name != "id":
            return dice.choice(self._known[name]) if self._known.get(name) else value or "-"
        if made.method == "DELETE" or _ENDS.search(made.path):
            return dice.choice(self.spare)
        return who.seat if dice.random() < _OWN else dice.choice((*self._known["id"], *self.spare))

    async def still_answered(self, port: int) -> str | None:
        """Asks as one should, as everybody in turn; what was not answered as it must be."""
        self._key += 1
        known = self.callers[1:]
        who = known[self._key % len(known)]
        try:
            async with Caller(port, who.token or "") as caller:
                if (await caller.get("/health"))["status"] != "ok":
                    return "the server is not well"
                seen: dict[str, Any] = await caller.get(f"/workspaces/{who.seat}")
                if seen["id"] != who.seat:
                    return f"{who.name}: another workspace"
                if who.name.endswith("workspace"):
                    path, kept = f"/workspaces/{who.seat}/memory", {"n": self._key, "text": "ä\u2028"}
                    await caller.post(path, {"key": "between", "value": kept})
                    if (await caller.get(f"{path}/between"))["value"] != kept:
                        return f"{who.name}: another value than the one that was kept"
        except (Refused, OSError, KeyError, TypeError) as error:
            return f"{who.name}: {error!r}"
        return None
