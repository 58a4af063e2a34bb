"""Logging in and out. A one-time link carries a code; the page exchanges it for a session in a cookie."""

from msgspec import Struct

from molecule_core.access.model import Caller, Kind, Person, Role
from molecule_core.access.reader import AccessReader
from molecule_core.access.writer import AccessWriter
from molecule_core.edges.auth import Guards, check_own_page
from molecule_core.edges.live import Live
from molecule_core.edges.rates import Counts
from molecule_core.edges.routes import PEOPLE, PUBLIC, Answer, Call, Reach, Route, Who, json_answer
from molecule_core.ground.clock import SECOND, Clock, rfc3339
from molecule_core.ground.settings import Settings
from molecule_core.ground.tokens import hash_of
from molecule_core.org.reader import OrgReader
from molecule_core.views.snapshot import user_of
from molecule_core.wire.live import Session, SnapshotOrg, User

FIRST_OWNER = "Owner"
"""The person that an organisation's first login link is for."""


class Code(Struct):
    """What a login link carries behind its #."""

    code: str


class LinkFor(Struct):
    """Whom a login link is for; the organisation's first owner if nobody is named."""

    person_id: str | None = None


class Link(Struct):
    """A login link, good once. Whoever opens it is that person."""

    url: str
    person_id: str
    name: str
    expires_at: str


class SessionEdge:
    """The routes of logging in."""

    def __init__(
        self,
        writer: AccessWriter,
        reader: AccessReader,
        org: OrgReader,
        guards: Guards,
        live: Live,
        *,
        clock: Clock,
        settings: Settings,
        version: str,
    ) -> None:
        self._writer = writer
        self._reader = reader
        self._org = org
        self._guards = guards
        self._live = live
        self._clock = clock
        self._public_url = settings.url
        self._cookie = settings.cookie
        self._version = version

    def routes(self) -> list[Route]:
        """The rows for the table."""
        owner = Who(PEOPLE, Reach.NONE, Role.OWNER)
        links = "/orgs/{org_id}/login-links"
        return [
            Route(
                "POST",
                "/login",
                self.log_in,
                PUBLIC,
                "Exchange a login link's code for a session",
                Code,
                Session,
                counts=Counts.LOGIN,
            ),
            Route("POST", "/logout", self.log_out, Who(PEOPLE), "End the session of this browser"),
            Route("GET", "/session", self.session, Who(PEOPLE), "Who is logged in", None, Session),
            Route("POST", links, self.link, owner, "Make a one-time login link", LinkFor, Link, 201),
        ]

    async def log_in(self, call: Call) -> Answer:
        """A code becomes a session, once. The session's token stands only in the cookie."""
        code = call.read(Code).code
        check_own_page(call.headers)
        login = await self._writer.log_in(code)
        seconds = (login.expires_at - self._clock.now()) // SECOND
        cookie = self._cookie_of(login.session, seconds)
        return self._session(_user(login.person), login.person.org_id, (cookie,))

    async def log_out(self, call: Call) -> Answer:
        """The session opens nothing any more, and its live channels end."""
        session = self._guards.session(call.headers)
        if session is not None:
            await self._writer.log_out(session)
            self._live.end((hash_of(session),), "logged out")
        return Answer(b"{}", headers=(self._cookie_of("", 0),))

    async def session(self, call: Call) -> Answer:
        """Who is logged in; 401 if nobody is."""
        caller: Caller = call.by
        return self._session(user_of(caller), caller.org_id or self._org.orgs()[0].id, ())

    def _session(self, user: User, org_id: str, headers: tuple[tuple[bytes, bytes], ...]) -> Answer:
        org = self._org.org(org_id)
        answer = json_answer(Session(user, SnapshotOrg(org.id, org.name), self._version))
        answer.headers = (*headers, (b"cache-control", b"no-store"))
        return answer

    async def link(self, call: Call) -> Answer:
        """A link that logs a person in, once, within a quarter of an hour by default."""
        org_id, wanted = call.params["org_id"], call.read(LinkFor).person_id
        if wanted is None:
            return json_answer(await self.owner_link(org_id), 201)
        return json_answer(await self._link_for(await self._reader.person(org_id, wanted)), 201)

    async def owner_link(self, org_id: str) -> Link:
        """A login link for the first owner of an organisation, who is made if there is none."""
        return await self._link_for(await self._writer.owner(org_id, FIRST_OWNER))

    async def _link_for(self, person: Person) -> Link:
        code, expires_at = await self._writer.issue_login(person)
        # Behind the #, so that it reaches no log of a server or proxy.
        # control: login-code-in-fragment
        return Link(f"{self._public_url}/app/#login={code}", person.id, person.name, rfc3339(expires_at))

    def _cookie_of(self, token: str, seconds: int) -> tuple[bytes, bytes]:
        """No script reads it, no other page's request carries it; over https no plain request does either."""
        secure = "; Secure" if self._public_url.startswith("https:") else ""
        text = f"{self._cookie}={token}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"
        return b"set-cookie", text.encode()


def _user(person: Person) -> User:
    return User(person.id, person.name, Kind.PERSON.value, person.role)
