"""A whole server in this process, all routes and guards and only the socket missing: time, ids and chance are ours."""

from typing import Any
from urllib.parse import urlencode

import msgspec

from molecule_core.api.application import InternalRequest
from molecule_core.api.routing import Request
from molecule_core.common.limits import Limits
from molecule_core.common.settings import Settings
from molecule_core.server.composition import Server
from proofs.harness.settings import Setting
from testing.clocks import FakeClock, SeededRandomness

ADMIN_TOKEN = "proof-" + "a" * 32
# The limits of delegations and of chains are those that are shipped; only the rates are out of the way.
_MANY = 10**9
LIMITS = Limits(
    requests_per_minute=_MANY, sends_per_minute=_MANY, org_sends_per_minute=_MANY, anonymous_per_minute=_MANY
)


class Desk:
    """Asks a server in this process, past its socket."""

    def __init__(self, server: Server) -> None:
        self.server = server

    async def ask(
        self, token: str, method: str, path: str, body: Any = None, *, key: str | None = None, **query: Any
    ) -> tuple[int, Any]:
        """Status and body of what the public API answers. `key`: what the caller calls what it wants done."""
        status, answer = await self.bytes_of(token, method, path, body, key=key, **query)
        return status, msgspec.json.decode(answer) if answer else None

    async def bytes_of(
        self, token: str, method: str, path: str, body: Any = None, *, key: str | None = None, **query: Any
    ) -> tuple[int, bytes]:
        """The same, as it would leave."""
        own = {} if key is None else {b"idempotency-key": key.encode()}
        wish = InternalRequest(
            method, path, urlencode(query).encode(), b"" if body is None else msgspec.json.encode(body), own
        )
        headers = {b"authorization": f"Bearer {token}".encode()}
        answer = await self.server.app.call_internally(
            Request(self.server.routes.routes[0], {}, headers, b"", LIMITS), wish
        )
        return answer.status, answer.body

    async def tell(self, token: str, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """What must be answered. Raises RuntimeError."""
        status, answer = await self.ask(token, method, path, body, **query)
        if status >= 400:
            raise RuntimeError(f"{method} {path}: {status} {answer}")
        return answer


class Office(Desk):
    """A server in this process, and its time."""

    def __init__(self, setting: Setting, clock: FakeClock, limits: Limits = LIMITS) -> None:
        # Agents here repeat the text of their mail, so it is as it was sent.
        settings = Settings(
            state_dir=str(setting.folder), database=setting.database, limits=limits, push_instructions_enabled=False
        )
        randomness = SeededRandomness(setting.seed + clock.at)
        super().__init__(Server(settings, admin_token=ADMIN_TOKEN, clock=clock, randomness=randomness))
