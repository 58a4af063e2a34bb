"""Who asks, what there is to ask about, and how one asks: a server with a little of everything in it."""

import asyncio
import base64
import json
import re
from random import Random
from typing import Any
from urllib.parse import quote, urlencode

from msgspec import Struct

from proofs.harness.caller import Caller, NoAnswer, Refused
from proofs.harness.serving import ADMIN_TOKEN
from proofs.http.made import Made
from proofs.http.plausible import Plausible
from testing.raw_http import ask, request

# Who is asked about: mostly something that is there.
_REAL, _OWN = 0.85, 0.7
# What ends things does not get to those that others still need.
_ENDS = re.compile(
    r"^/workspaces/{id}$|/(rotate|collapse|pause|hibernate|tokens|logout|delete|prune|expand|prompt-template)\b"
)
# A picture of one point.
_PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
# So many keys that those who ask at the same moment never write under the same one.
_KEYS = 100
_VISIBLE = re.compile(r"[\x20-\x7e\xa0-\xff]*")


class Who(Struct):
    """A caller. `kind`: of its credential. `seat`: the workspace that is its own, or that it asks about first."""

    name: str
    kind: str
    token: str | None
    seat: str


class Scene:
    """An organisation with seats, persons, mail, work, an approval, a thread; and what was learned of since."""

    def __init__(self, dice: Random) -> None:
        self.callers: list[Who] = []
        self.spare: list[str] = []
        self._dice = dice
        self.knows = Plausible(dice)
        self._spare_people: list[str] = []
        self._key = 0

    async def found(self, port: int) -> None:
        """Makes all of it."""
        async with Caller(port, ADMIN_TOKEN) as admin:
            org = (await admin.get("/orgs"))[0]["id"]
            self.knows.know("org_id", org, org, org, (await admin.post("/orgs", {"name": "Other"}))["id"])
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
                Who("nobody", "", None, first),
                Who("the operator", "admin", ADMIN_TOKEN, first),
                Who("a person", "person", person["auth_token"], first),
                Who("a person who may only look", "person", viewer["auth_token"], first),
                Who("a workspace", "workspace", tokens[0], first),
                Who("another workspace", "workspace", tokens[1], second),
            ]
            self.knows.know("id", first, second, lead["id"])
            for number in range(4):
                message = {"role": "user", "parts": [{"kind": "text", "text": f"Question {number}?"}]}
                await admin.post(f"/workspaces/{first}/a2a", {"params": {"message": message}})
        async with Caller(port, tokens[0]) as seat:
            rows = await seat.get(f"/workspaces/{first}/activity", claim=60, wait=0, include="instructions")
            self.knows.know("handle", *re.findall(r'"handle": ?"([^"]+)"', json.dumps(rows)))
            self.knows.know("activity_id", *(row["id"] for row in rows))
            task = {"target_id": second, "task": "sort the mail"}
            self.knows.know("delegation_id", (await seat.post(f"/workspaces/{first}/delegate", task))["delegation_id"])
            asked = await seat.post(f"/workspaces/{first}/approvals", {"action": "open the shop"})
            self.knows.know("approval_id", asked["approval_id"])
            await self._more(port, tokens[0], first, asked["approval_id"])
            start = {"base_instructions": "Be kind.", "input": "hello"}
            thread = await seat.post(f"/workspaces/{first}/threads", start)
            self.knows.know("thread_id", thread["thread_id"])
            self.knows.know("turn_id", thread["queued"][0])

    async def _more(self, port: int, token: str, own: str, approval: str) -> None:
        """A file, a memory, a value, and an approval that is given and may be used."""
        form = (
            b'--x\r\nContent-Disposition: form-data; name="files"; filename="a.png"\r\n\r\n%b\r\n--x--\r\n' % _PICTURE
        )
        kind = {"Content-Type": "multipart/form-data; boundary=x"}
        sent = await ask(port, "POST", f"/workspaces/{own}/chat/uploads", form, token=ADMIN_TOKEN, headers=kind)
        self.knows.know("file_id", *(each["uri"].rpartition("/")[2] for each in sent.json["files"]))
        async with Caller(port, token) as seat:
            kept = await seat.post(f"/workspaces/{own}/memories", {"content": "The door is green.", "scope": "TEAM"})
            self.knows.know("memory_id", kept["id"])
            await seat.post(f"/workspaces/{own}/memory", {"key": "door", "value": "green"})
            self.knows.know("key", "door")
        async with Caller(port, ADMIN_TOKEN) as admin:
            await admin.post(f"/workspaces/{own}/approvals/{approval}/decide", {"decision": "approve"})
        self.knows.know("approval_id", approval)

    def written(self, made: Made, who: Who) -> bytes:
        """The bytes of a request, about something that mostly is there."""
        params = {name: self._about(name, value, made, who) for name, value in made.params.items()}
        path = made.path
        for name, value in params.items():
            path = path.replace(f"{{{name}}}", quote(value, safe="/" if name == "path" else "", errors="replace"))
        query = f"?{urlencode(made.query, errors='replace')}" if made.query else ""
        headers = {n: v for n, v in made.headers.items() if _VISIBLE.fullmatch(n + v) and n.lower() != "authorization"}
        headers |= {"X-Molecule-Client": "proof", "Accept": "application/json, text/event-stream"}
        body = self.knows.body(made.path, made.body)
        if body is not None and not made.body:
            headers["Content-Type"] = "application/json"
        return request(made.method, path + query, body, token=who.token, headers=headers)

    def _about(self, name: str, value: str, made: Made, who: Who) -> str:
        dice = self._dice
        if dice.random() > _REAL:
            return value or "-"
        if name == "person_id":
            return dice.choice(self._spare_people)
        if name != "id":
            return self.knows.one(name) or value or "-"
        if made.method != "GET" and _ENDS.search(made.path):
            return dice.choice(self.spare)
        return who.seat if dice.random() < _OWN else dice.choice((self.knows.one("id") or who.seat, *self.spare))

    async def still_answered(self, port: int) -> str | None:
        """Asks as one should, as everybody in turn; what was not answered as it must be."""
        self._key += 1
        known = self.callers[1:]
        who = known[self._key % len(known)]
        # On a loop of its own: this one judges long answers, and who connects and is then held up itself is hung up on.
        try:
            return await asyncio.to_thread(asyncio.run, _asked(port, who, self._key))
        except NoAnswer as error:
            return f"{who.name}: {error!r}"


async def _asked(port: int, who: Who, number: int) -> str | None:
    try:
        async with Caller(port, who.token or "") as caller:
            if (await caller.get("/health"))["status"] != "ok":
                return "the server is not well"
            seen: dict[str, Any] = await caller.get(f"/workspaces/{who.seat}")
            if seen["id"] != who.seat:
                return f"{who.name}: another workspace"
            if who.name.endswith("workspace"):
                # Others may be asking as the same seat at this moment: not about this key.
                path, key = f"/workspaces/{who.seat}/memory", f"between-{number % _KEYS}"
                kept = {"n": number, "text": "ä\u2028"}
                await caller.post(path, {"key": key, "value": kept})
                if (await caller.get(f"{path}/{key}"))["value"] != kept:
                    return f"{who.name}: another value than the one that was kept"
    except (Refused, OSError, KeyError, TypeError) as error:
        return f"{who.name}: {error!r}"
    return None
