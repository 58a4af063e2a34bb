"""Workspaces for a measurement, made through the public API before it begins."""

import asyncio

from benchmarks.load import Seat
from benchmarks.servers import Place, Server
from molecule_core.client.api import ApiClient


def make_seats(server: Server, place: Place, name: str, count: int) -> list[Seat]:
    """So many new workspaces at the top of the first organisation: siblings, who may all talk to each other."""

    async def make() -> list[Seat]:
        async with ApiClient(f"http://127.0.0.1:{server.port}", place.admin_token()) as api:
            made = [await api.post("/workspaces", {"name": f"{name} {number}"}) for number in range(count)]
        return [Seat(each["id"], each["connection"]["auth_token"]) for each in made]

    return asyncio.run(make())


def make_pushed(server: Server, place: Place, name: str, port: int) -> Seat:
    """A workspace beside them, whose agent the server calls on this machine."""

    async def make() -> Seat:
        async with ApiClient(f"http://127.0.0.1:{server.port}", place.admin_token()) as api:
            asked = {"name": name, "delivery_mode": "push", "url": f"http://127.0.0.1:{port}/a2a"}
            made = await api.post("/workspaces", asked)
        return Seat(made["id"], made["connection"]["auth_token"])

    return asyncio.run(make())


def first_messages(server: Server, seats: list[Seat]) -> list[str]:
    """Lets each workspace write to itself once; returns the ids of the rows, which serve as cursors."""

    async def send() -> list[str]:
        return [await _write_to_itself(server, seat) for seat in seats]

    return asyncio.run(send())


async def _write_to_itself(server: Server, seat: Seat) -> str:
    async with ApiClient(f"http://127.0.0.1:{server.port}", seat.token) as api:
        return str((await api.send(seat.id, "hello"))["activity_id"])
