"""The company that every game begins with: founded once, on a file that each game gets a copy of."""

import asyncio
from pathlib import Path
from typing import Any

from msgspec import Struct

from proofs.harness.office import ADMIN_TOKEN, LIMITS, Office
from proofs.harness.settings import Setting
from testing.clocks import FakeClock

# Who stands below whom: one lead, three managers, three below each of two of them, and two agents that are pushed to.
_ABOVE = (None, 0, 0, 0, 1, 1, 1, 2, 2, 2, 1, 2)
_PUSHED = (10, 11)


class Seat(Struct, frozen=True):
    """A workspace. `above`, and those it may talk to: by their numbers."""

    number: int
    id: str
    token: str
    above: int | None
    is_pushed: bool
    peers: list[int]

    @property
    def below(self) -> list[int]:
        """Those that stand directly below it."""
        return [number for number, above in enumerate(_ABOVE) if above == self.number]


class Company(Struct, frozen=True):
    """Seats, and two persons who may do everything that persons do from day to day."""

    org_id: str
    seats: list[Seat]
    persons: list[str]
    """Their tokens."""

    @property
    def polled(self) -> list[Seat]:
        """Those that fetch their mail."""
        return [seat for seat in self.seats if not seat.is_pushed]


def founded(folder: Path) -> Company:
    """A company on a new file, whose server has ended. (With a loop as others have it: nobody plays yet.)"""
    return asyncio.run(_found(folder))


async def _found(folder: Path) -> Company:
    setting = Setting(engine="sqlite", folder=folder, database="", seed=0, size=0)
    office = Office(setting, FakeClock(), LIMITS)
    await office.server.open()
    org_id = (await office.tell(ADMIN_TOKEN, "GET", "/orgs"))[0]["id"]
    made: list[dict[str, Any]] = []
    for number, above in enumerate(_ABOVE):
        wish = {"name": f"Seat {number}"}
        wish |= {} if above is None else {"parent_id": made[above]["id"]}
        if number in _PUSHED:
            wish |= {"delivery_mode": "push", "url": f"https://8.8.8.{number}/a2a"}
        made.append(await office.tell(ADMIN_TOKEN, "POST", "/workspaces", wish))
    persons = [
        (await office.tell(ADMIN_TOKEN, "POST", f"/orgs/{org_id}/people", {"name": name, "role": "operator"}))
        for name in ("Ann", "Bob")
    ]
    await office.server.close()
    seats = [
        Seat(number, each["id"], each["connection"]["auth_token"], _ABOVE[number], number in _PUSHED, _peers(number))
        for number, each in enumerate(made)
    ]
    return Company(org_id, seats, [each["auth_token"] for each in persons])


def _peers(number: int) -> list[int]:
    """Above, below and beside it."""
    above = _ABOVE[number]
    return [
        other
        for other, its in enumerate(_ABOVE)
        if other != number and (other == above or its == number or (its == above and above is not None))
    ]
