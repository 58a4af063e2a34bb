"""The reporter of live turns: few requests, no wait, no error, nothing lost while the server is away for a moment."""

import asyncio
from typing import Any

import pytest

from molecule_core.agent.config import AgentSettings
from molecule_core.agent.live.reporter import LiveReporter, ReportedTurn
from molecule_core.client.api import ApiClient, ApiError, NoAnswerError
from molecule_core.common.clock import SystemClock
from molecule_core.live_turns.model import LiveTurn
from testing.clocks import FakeClock, settle
from testing.running_server import Running, Seat
from testing.waits import bounded, eventually
from tests.agent.report_server import ReportServer

SETTINGS = AgentSettings(live_seconds=0.1, live_bytes=1000)


class _Target:
    """A workspace on a server that runs."""

    def __init__(self, seat: Seat) -> None:
        self.id = seat.id
        self._api = seat.api

    def api(self) -> ApiClient:
        return self._api


async def _known(server: Running, seat: Seat) -> list[LiveTurn]:
    return await server.server.live_turns.reader.of_workspace(seat.id)


async def test_a_turn_is_reported_from_begin_to_end(server: Running) -> None:
    ops = await server.seat("Ops")
    reporter = LiveReporter(_Target(ops), SystemClock(), SETTINGS)
    turn = reporter.begin("act-1")
    turn.text("Hel")
    turn.text("lo")
    turn.tool("1", "Bash", "ls -l", "started")
    turn.paragraph()
    turn.text("Done.")
    turn.status("waiting_for_approval", "ls -l")
    await bounded(turn.end("ended"))
    turn.text("late")
    (known,) = await _known(server, ops)
    assert (known.text, known.status, known.tools[0].title) == ("Hello\n\nDone.", "ended", "ls -l")
    await reporter.close()


async def test_a_stop_completes_the_wait_of_a_quiet_turn(server: Running) -> None:
    ops, ada = await server.seat("Ops"), await server.person()
    reporter = LiveReporter(_Target(ops), SystemClock(), SETTINGS)
    turn, other = reporter.begin("act-1"), reporter.begin("act-2")
    await eventually(lambda: _known(server, ops), lambda turns: len(turns) == 2)
    await ada.post(f"/workspaces/{ops.id}/live/stop", {"activity_id": "act-1"})
    await bounded(turn.stop_requested())
    waiting = asyncio.create_task(other.stop_requested())
    await bounded(turn.end("stopped"))
    await bounded(other.end("ended"))
    assert not waiting.done()
    waiting.cancel()
    await reporter.close()


async def _many_deltas(turn: ReportedTurn, clock: FakeClock, seconds: int) -> str:
    whole = ""
    for number in range(seconds * 200):
        whole += f"{number} "
        turn.text(f"{number} ")
        await settle(2)
        await clock.advance(1 / 200)
    return whole


async def test_two_hundred_deltas_a_second_are_ten_requests() -> None:
    clock, server = FakeClock(), ReportServer()
    reporter = LiveReporter(server, clock, SETTINGS)
    turn = reporter.begin("act-1")
    whole = await _many_deltas(turn, clock, 2)
    await clock.advance(0.2)
    await settle()
    assert server.text == whole
    assert len(server.bodies) <= 23
    await reporter.close()


@pytest.mark.parametrize("error", [NoAnswerError("gone"), ApiError(503, {"code": "server_busy"})])
async def test_while_the_server_is_away_the_newest_text_is_kept(error: Exception) -> None:
    clock, server = FakeClock(), ReportServer()
    reporter = LiveReporter(server, clock, SETTINGS)
    turn = reporter.begin("act-1")
    await settle()
    server.answers = [error] * 3
    for number in range(300):
        turn.text(f"{number:09} ")
    for _ in range(8):
        await clock.advance(5)
        await settle()
    assert server.answers == []
    last = [each for each in server.bodies[-1]["events"] if each["type"] == "text"]
    assert "".join(each["text"] for each in last) == "".join(f"{number:09} " for number in range(200, 300))
    assert last[0]["at"] == 2000
    await reporter.close()


async def test_a_report_whose_answer_was_lost_adds_its_text_once(server: Running) -> None:
    ops = await server.seat("Ops")

    class Losing(_Target):
        """A connection that breaks once, after the server has taken a report."""

        is_broken = False

        def api(self) -> ApiClient:
            found = super().api()
            outer = self

            class Once(ReportServer):
                async def post(self, path: str, body: Any = None, **query: Any) -> Any:
                    answer = await found.post(path, body, **query)
                    if not outer.is_broken:
                        outer.is_broken = True
                        raise NoAnswerError("the connection was lost")
                    return answer

            return Once()

    reporter = LiveReporter(Losing(ops), SystemClock(), SETTINGS)
    turn = reporter.begin("act-1")
    turn.text("Hello")
    await eventually(lambda: _known(server, ops), lambda turns: bool(turns) and turns[0].text == "Hello")
    turn.text(" you")
    await bounded(turn.end("ended"))
    assert [each.text for each in await _known(server, ops)] == ["Hello you"]
    await reporter.close()


@pytest.mark.parametrize("code, status", [("no_such_route", 404), ("too_many_open", 429), ("not_found", 404)])
async def test_a_refused_turn_goes_on_unreported(code: str, status: int) -> None:
    clock, server = FakeClock(), ReportServer()
    reporter = LiveReporter(server, clock, SETTINGS)
    turn = reporter.begin("act-1")
    server.answers = [ApiError(status, {"code": code})]
    turn.text("Hello")
    await settle()
    await clock.advance(1)
    turn.text(" you")
    await settle()
    await bounded(turn.end("ended"))
    assert len(server.bodies) == 1
    other = reporter.begin("act-2")
    await clock.advance(1)
    await settle()
    assert len(server.bodies) == (1 if code == "no_such_route" else 2)
    other.drop()
    await reporter.close()


async def test_a_turn_ends_although_the_server_is_away() -> None:
    clock, server = FakeClock(), ReportServer()
    server.answers = [NoAnswerError("gone")] * 100
    reporter = LiveReporter(server, clock, SETTINGS)
    turn = reporter.begin("act-1")
    ending = asyncio.create_task(turn.end("ended"))
    await settle()
    await clock.advance(2)
    await bounded(ending)
    assert turn.is_over and server.answers
    await reporter.close()


async def test_a_turn_that_is_dropped_with_its_words_unsent_silences_no_other() -> None:
    clock, server = FakeClock(), ReportServer()
    reporter = LiveReporter(server, clock, SETTINGS)
    dropped, other = reporter.begin("act-1"), reporter.begin("act-2")
    await settle()
    await clock.advance(1)
    await settle()
    dropped.text("never sent")
    dropped.drop()
    await settle()
    other.text("Hello")
    await clock.advance(1)
    await settle()
    assert server.text == "Hello"
    await reporter.close()
