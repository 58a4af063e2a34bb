"""How a host of agents is connected to a seat: texts that the canvas shows and people paste. No token is in them."""

from molecule_core.access.model import Role
from molecule_core.edges.query import asks, choice, plain_text
from molecule_core.edges.routes import PEOPLE, Answer, Call, Reach, Route, Who, json_answer
from molecule_core.ground.errors import InvalidField
from molecule_core.wire import hosts


class ConnectEdge:
    """The routes of the connect page."""

    def __init__(self, *, public_url: str) -> None:
        self._public_url = public_url

    def routes(self) -> list[Route]:
        """The rows for the table."""
        operator_of = Who(PEOPLE, Reach.OWN, Role.OPERATOR)
        one, page = "/workspaces/{id}/connect", hosts.ConnectPage
        chosen = asks(choice("host", "Where the agent lives.", hosts.NAMES))
        return [
            Route("GET", "/hosts", self.hosts, Who(PEOPLE), "Where agents can live", None, list[hosts.HostRow]),
            Route("GET", one, self.page, operator_of, "How a host is connected (?host=)", None, page, query=chosen),
        ]

    async def hosts(self, _call: Call) -> Answer:
        """All hosts that one can choose."""
        return json_answer(hosts.rows())

    async def page(self, call: Call) -> Answer:
        """What to do on the agent's machine."""
        host = hosts.host_of(plain_text(call.query(), "host") or hosts.NAMES[0])
        if host is None:
            raise InvalidField(reason=f"host must be one of {', '.join(hosts.NAMES)}")
        return json_answer(hosts.page(host, call.target.id, self._public_url))
