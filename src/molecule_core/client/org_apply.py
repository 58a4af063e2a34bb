"""Brings an organisation in line with its file, by the public API alone. Above: cli. Below: org_plan, api.

Whoever is interrupted begins again: what was done is found done. Those above come before those below, so that no move
makes a circle; removals come last, when all that stays has left what goes.
"""

from collections.abc import Callable
from typing import Any

from molecule_core.client.api import Api, ApiError
from molecule_core.client.org_file import FileSeat, Node
from molecule_core.client.org_plan import ABILITIES, Alter, Drop, Make, Plan, Row, plan_of, shown
from molecule_core.ground.errors import OrgFileFailed

# Names that trade places need a second pass (the first gives one of them a number); more come from others' changes.
_PASSES = 4
_CONFLICT = 409
_AT_BIRTH = (
    "name",
    "runtime",
    "external",
    "tier",
    "max_concurrent_tasks",
    "instruction_template_id",
    "instruction_compact",
    "instruction_shape",
    "reply_seconds",
    "send_drafts",
    "key",
    "delivery_mode",
    "url",
)


async def find_org(api: Api, name: str | None) -> dict[str, Any] | None:
    """The organisation of this name (None: the caller's own, or the first) that the credential opens; None: there is
    none, and the admin may make it. Raises ApiError, NoAnswer, OrgFileFailed."""
    session = await api.get("/session")
    if session["user"]["kind"] != "admin":
        own: dict[str, Any] = session["org"]
        if name not in (None, own["name"]):
            raise OrgFileFailed(reason=f"this token is for {own['name']!r}, not for {name!r}; name it with --org")
        return own
    orgs: list[dict[str, Any]] = await api.get("/orgs")
    return next((each for each in orgs if name in (None, each["name"])), None)


async def rows_of(api: Api, org_id: str) -> list[Row]:
    """All workspaces of an organisation. Raises ApiError, NoAnswer."""
    rows: list[Row] = await api.get("/workspaces", org_id=org_id)
    return rows


class Applier:
    """Carries plans out. `keep` takes each new seat's id, path and token; `say` a line for people."""

    def __init__(
        self,
        api: Api,
        org_id: str,
        *,
        keep: Callable[[str, tuple[str, ...], str], None],
        say: Callable[[str], None],
    ) -> None:
        self._api = api
        self._org_id = org_id
        self._keep = keep
        self._say = say

    async def apply(self, wanted: list[Node], may_remove: Callable[[Plan], bool]) -> None:
        """Carries out what is to be done; asks before anything is removed that was not asked about before.

        Raises ApiError, NoAnswer, OrgFileFailed."""
        known: dict[int, str] = {}
        asked: set[str] = set()
        for _ in range(_PASSES):
            plan = plan_of(wanted, await rows_of(self._api, self._org_id), known)
            if plan.is_empty:
                return
            going = {drop.row["id"] for drop in plan.drops}
            if not going <= asked and not may_remove(plan):
                raise OrgFileFailed(reason="nothing was changed")
            asked |= going
            known = await self._carry_out(wanted, plan)
        raise OrgFileFailed(reason="somebody else changes this organisation at the same time; run it again")

    async def _carry_out(self, wanted: list[Node], plan: Plan) -> dict[int, str]:
        ids = dict(plan.ids)
        makes = {make.number: make for make in plan.makes}
        alters = {alter.row["id"]: alter for alter in plan.alters}
        for number, node in enumerate(wanted):
            above = None if node.above is None else ids[node.above]
            if number in makes:
                ids[number] = await self._make(makes[number], above)
            elif ids[number] in alters:
                await self._alter(alters[ids[number]], above)
        for drop in plan.drops:
            await self._drop(drop)
        return ids

    async def _make(self, make: Make, above: str | None) -> str:
        seat, path = make.node.seat, make.node.path
        body = {name: value for name in _AT_BIRTH if (value := getattr(seat, name)) is not None}
        body |= {"org_id": self._org_id, "parent_id": above, "role": seat.role or None}
        answer = await self._api.post("/workspaces", body)
        self._say(f"+ {shown(path)}")
        self._keep(answer["id"], path, answer["connection"]["auth_token"])
        await self._switch(answer["id"], _abilities_beyond_default(seat))
        return str(answer["id"])

    async def _alter(self, alter: Alter, above: str | None) -> None:
        id_, new = alter.row["id"], {name: value for name, (_, value) in alter.members.items()}
        body = {name: value for name, value in new.items() if name not in ABILITIES}
        if alter.moves:
            body["parent_id"] = above
        if body:
            await self._api.call("PATCH", f"/workspaces/{id_}", body=body)
        await self._switch(id_, {name: value for name, value in new.items() if name in ABILITIES})
        self._say(f"{'>' if alter.moves else '~'} {shown(alter.node.path)}")

    async def _switch(self, id_: str, abilities: dict[str, bool]) -> None:
        if abilities:
            await self._api.call("PATCH", f"/workspaces/{id_}/abilities", body=abilities)

    async def _drop(self, drop: Drop) -> None:
        """Removes what the plan named, and nothing that somebody put below it meanwhile."""
        path, name = f"/workspaces/{drop.row['id']}", drop.row["name"]
        try:
            await self._api.call("DELETE", path)
        except ApiError as error:
            if error.status != _CONFLICT:
                raise
            others = {each["name"] for each in error.problem["children"]} - set(drop.below)
            if others:
                came = ", ".join(sorted(others))
                raise OrgFileFailed(reason=f"{came} came below {name!r} meanwhile; run it again") from None
        await self._api.call("DELETE", path, query={"confirm": "true", "name": name})
        self._say(f"- {shown(drop.path)}")


def _abilities_beyond_default(seat: FileSeat) -> dict[str, bool]:
    default = FileSeat(name="")
    return {name: value for name in ABILITIES if (value := getattr(seat, name)) != getattr(default, name)}
