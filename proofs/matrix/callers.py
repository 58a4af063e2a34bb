"""Every credential at every route and every target, in an order that chance gives: what `prove matrix` starts.

What should be answered is written by hand (testing/access_matrix.py), route by route; a route that stands there not, or
says otherwise of itself, is counted.
"""

from molecule_core.common.clock import SystemClock
from proofs.harness.children import as_a_child
from proofs.harness.settings import Setting
from proofs.harness.verdicts import Verdict
from testing.access_matrix import RULES, Probe, declared, expected, foreign_ids, probes, seen, send, without_date
from testing.callers import Cast, cast_of
from testing.raw_http import Wire, wire
from testing.running_server import Running, running

UNDECLARED = "routes declared otherwise or not at all"
LET_IN = "let in"
KEPT_OUT = "kept out"
OTHERWISE = "refused in other words"
TOLD_APART = "ids of others told apart from unknown ones"
BROKE = "answered 5xx"
ATTEMPTS = "different requests of callers that must be refused"
STRANGE = "different requests about ids of others"
_ZEROS = (UNDECLARED, LET_IN, KEPT_OUT, OTHERWISE, TOLD_APART, BROKE)
_MOST_NOTES = 5


class Callers:
    """One run on one server."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._attempts = set[tuple[str, ...]]()
        self._strange = set[tuple[str, ...]]()
        self.verdict = Verdict(dict.fromkeys(("routes", "requests"), 0), dict.fromkeys(_ZEROS, 0))

    async def run(self) -> Verdict:
        """`setting.size` requests, each probe as often as the others."""
        place = self._setting.database or str(self._setting.folder / "molecule.db")
        async with running(self._setting.engine, place, self._setting.folder, clock=SystemClock()) as server:
            self._declared(server)
            cast, dice, every = await cast_of(server), self._setting.dice("order"), list(probes())
            asked = list[Probe]()
            while len(asked) < self._setting.size:
                asked += dice.sample(every, len(every))
            async with wire(server.port) as connection:
                for probe in asked[: self._setting.size]:
                    await self._ask(connection, probe, cast)
                    if dice.random() < 0.5:
                        await self._compare(connection, probe, cast)
        self.verdict.figures |= {ATTEMPTS: len(self._attempts), STRANGE: len(self._strange)}
        return self.verdict

    def _declared(self, server: Running) -> None:
        rows = {(route.method, route.path): declared(route) for route in server.server.routes.routes}
        self.verdict.figures["routes"] = len(rows)
        for place in rows.keys() | RULES.keys():
            rule, row = RULES.get(place), rows.get(place)
            if rule is None or row is None or row[0] != rule.kinds or (rule.kinds and row[2] != rule.role):
                self._fault(UNDECLARED, " ".join(place))

    async def _ask(self, connection: Wire, probe: Probe, cast: Cast) -> None:
        reply = await send(connection, probe, cast)
        found, meant = seen(reply), expected(probe, cast)
        self._count("requests")
        # What is refused for its body alone is nobody's attempt, nor is what the admin does not find.
        if meant is not None and meant != probe.rule.behind and cast.credentials[probe.credential].kind != "admin":
            self._attempts.add(_named(probe))
        if found != meant:
            what = (
                BROKE if reply.status >= 500 else KEPT_OUT if meant is None else LET_IN if found is None else OTHERWISE
            )
            self._fault(what, f"{probe.method} {probe.path} {probe.credential} at {probe.target}: {found}, not {meant}")

    async def _compare(self, connection: Wire, probe: Probe, cast: Cast) -> None:
        who = cast.credentials[probe.credential]
        if probe.target != "unknown" or not probe.rule.names or who.kind == "admin":
            return
        unknown = without_date(await send(connection, probe, cast))
        for foreign in foreign_ids(probe, who, cast):
            self._strange.add((*_named(probe), foreign))
            if without_date(await send(connection, probe, cast, foreign)) != unknown:
                self._fault(TOLD_APART, f"{probe.method} {probe.path} {probe.credential}")

    def _count(self, what: str) -> None:
        self.verdict.figures[what] = int(self.verdict.figures[what]) + 1

    def _fault(self, what: str, note: str) -> None:
        self.verdict.zeros[what] += 1
        if len(self.verdict.notes) < _MOST_NOTES:
            self.verdict.notes.append(f"{what}: {note[:200]}")


def _named(probe: Probe) -> tuple[str, ...]:
    return probe.method, probe.path, probe.credential, probe.target


async def run(setting: Setting) -> Verdict:
    """One run."""
    return await Callers(setting).run()


if __name__ == "__main__":
    as_a_child(run)
