"""Eight writers and sixteen readers on the product's own classes, in one process: what `prove cursors` starts.

On SQLite they share one store, as everything in a server does. On PostgreSQL each writer has a store of its own, as if
it were a server of its own, and the database pauses before each commit, so that commits overlap and come late. Readers
come at the beginning or later, leave, and go on from their cursor, through any of the stores.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec import Struct

from molecule_core.access.credential_cache import CredentialCache
from molecule_core.access.writer import AccessWriter
from molecule_core.common.clock import SystemClock
from molecule_core.common.errors import CommunicationDenied
from molecule_core.common.ids import IdGenerator, SystemRandomness
from molecule_core.common.limits import Limits
from molecule_core.messages.model import Activity, ActivityFilters, AgentLogEntry, MessageDraft, Sender, UserNotice
from molecule_core.messages.reader import MessageReader
from molecule_core.messages.writer import MessageWriter
from molecule_core.org.model import NewWorkspace, Workspace
from molecule_core.org.reader import OrgReader, load_registry
from molecule_core.org.registry import OrgRegistry
from molecule_core.org.writer import OrgWriter
from molecule_core.store.database import Command, CommandSteps, JournalEvent, NextNumber, Store, WriteConflict, WriteSet
from molecule_core.store.journal import Journal, org_key
from molecule_core.store.postgres.store import PostgresStore
from molecule_core.store.sqlite.store import DATABASE_FILE, SqliteStore
from molecule_core.store.wakeups import Notifier, Poll
from molecule_core.wire.protocols.a2a import parse_send
from molecule_core.wire.schemas.activity import ActivityType
from proofs.cursors.lateness import prepare_database
from proofs.harness.children import as_a_child
from proofs.harness.ledger import Ledger, read_ledger
from proofs.harness.progress import Progress
from proofs.harness.settings import Setting
from proofs.harness.verdicts import Figure, Verdict, descents, gaps

WRITERS, ORGS, JOURNAL_READERS, INBOX_READERS = 8, 2, 8, 8
# A batch mostly goes to the writer's own inboxes, and now and then to anybody's.
_TO_ANYBODY = 0.1
_LARGEST_BATCH = 32
# Of a hundred batches, so many hold a command that takes numbers and then fails: its whole group is rolled back.
_SPOILT = 0.03
_WAYS_TO_FAIL = ("refuses", "takes an id that is taken", "tells the journal nonsense")
_LARGEST_PAGE = 300
_MOST_PAGES_A_VISIT = 30
_PAGE_SECONDS = 5.0
_STALL_SECONDS = 60.0
# A product that refuses everything must not hold the proof for ever.
_MOST_TRIES = 3
_INBOX = ActivityFilters(activity_type=ActivityType.RECEIVE)

Place = tuple[int, str]
"""A number and what stands under it."""


class Office:
    """What one server process holds."""

    def __init__(self, setting: Setting, wakeups: Notifier) -> None:
        clock, limits, chance = SystemClock(), Limits(), SystemRandomness()
        self.ids = IdGenerator(clock, chance)
        self.store = _store(setting, clock, self.ids, limits, wakeups)
        self.registry = OrgRegistry()
        org = OrgReader(self.registry)
        access = AccessWriter(
            self.store, CredentialCache(), clock=clock, ids=self.ids, randomness=chance, limits=limits
        )
        self.org = OrgWriter(
            self.store, self.registry, access, wakeups.notify, clock=clock, ids=self.ids, limits=limits
        )
        self.writer = MessageWriter(self.store, org, clock=clock, ids=self.ids, limits=limits)
        self.reader = MessageReader(self.store, org, wakeups, limits=limits, public_url="")
        self.journal = Journal(self.store)


def _store(setting: Setting, clock: SystemClock, ids: IdGenerator, limits: Limits, wakeups: Notifier) -> Store:
    if setting.engine == "sqlite":
        return SqliteStore(setting.folder / DATABASE_FILE, clock=clock, ids=ids, limits=limits, notify=wakeups.notify)
    return PostgresStore(setting.database, clock=clock, ids=ids, limits=limits, notify=wakeups.notify)


class Track(Struct):
    """Where a reader began, and what it saw from there on, in the order it came."""

    source: str
    start: int
    seen: list[Place] = []


class Crowd:
    """One run, from empty stores to the verdict."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._wakeups = Notifier(SystemClock())
        self._progress = Progress()
        count = 1 if setting.engine == "sqlite" else WRITERS
        self._offices = [Office(setting, self._wakeups) for _ in range(count)]
        self._orgs: list[str] = []
        self._seats: dict[str, list[Workspace]] = {}
        self._accepted: set[str] = set()
        self._journals: list[Track] = []
        self._inboxes: list[Track] = []
        self._counts: dict[str, int] = dict.fromkeys(("failed", "not refused", "spoilt", "pages", "live pages"), 0)
        self._notes: list[str] = []

    async def run(self) -> Verdict:
        """Writes `setting.size` events while others read them; then judges what the readers saw."""
        await self._open()
        readers = [asyncio.create_task(self._follow_journal(n)) for n in range(JOURNAL_READERS)]
        readers += [asyncio.create_task(self._follow_inbox(n)) for n in range(INBOX_READERS)]
        await asyncio.gather(*(self._write(n) for n in range(WRITERS)))
        self._wakeups.close()
        async with asyncio.timeout(_STALL_SECONDS):
            await asyncio.gather(*readers)
        for office in self._offices:
            await office.store.close()
        return self._judge(await read_ledger(self._setting))

    async def _open(self) -> None:
        first = self._offices[0]
        await first.store.open()
        if self._setting.engine == "postgres":
            await prepare_database(self._setting)
        for number in range(ORGS):
            org = await first.org.create_org(f"Org {number}")
            self._orgs.append(org.id)
            made = [await first.org.create_workspace(org.id, NewWorkspace(name=f"Seat {n}")) for n in range(WRITERS)]
            self._seats[org.id] = [each.workspace for each in made]
        for office in self._offices[1:]:
            await office.store.open()
            await load_registry(office.store, office.registry)

    # -- writers -------------------------------------------------------------------------------------------------------

    async def _write(self, place: int) -> None:
        """Batches of commands that wait in the same moment, so that they share groups, until all is written."""
        dice = self._setting.dice("writer", place)
        office = self._offices[place % len(self._offices)]
        tries = 0
        while self._progress.counts["written"] < self._setting.size and tries < _MOST_TRIES * self._setting.size:
            seats = [seats[place] for seats in self._seats.values()]
            if dice.random() < _TO_ANYBODY:
                seats = [seat for seats in self._seats.values() for seat in seats]
            numbers = range(tries, tries + dice.randint(1, _LARGEST_BATCH))
            batch = [self._command(office, dice, dice.choice(seats), f"{place}-{number}") for number in numbers]
            tries += len(batch)
            if dice.random() < _SPOILT:
                spoiler = self._spoil(office, place, dice.choice(_WAYS_TO_FAIL))
                batch.insert(dice.randrange(len(batch) + 1), spoiler)
            await asyncio.gather(*batch)

    def _command(self, office: Office, dice: Any, seat: Workspace, name: str) -> Awaitable[object]:
        kind = dice.random()
        if kind < 0.8:
            return self._send(office, seat, f"m{name}", again=kind < 0.05)
        if kind < 0.85:
            return self._be_refused(office, seat)
        if kind < 0.95:
            return self._count(
                office.writer.notify_user(seat.id, UserNotice([{"kind": "text", "text": name}], f"n{name}"))
            )
        return self._count(office.writer.log_activity(seat.id, AgentLogEntry(activity_type="agent_log", summary=name)))

    async def _count(self, command: Awaitable[Any]) -> str:
        """Counts a command that has written one event; notes one that failed though it was in order."""
        try:
            answer = await command
        except Exception as error:
            self._failed(error)
            return ""
        activity_id: str = answer if isinstance(answer, str) else answer.activity_id
        self._accepted.add(activity_id)
        self._progress.note("written")
        return activity_id

    def _failed(self, error: Exception) -> None:
        """A command that had no reason to fail, or failed for another reason than it should."""
        self._counts["failed"] += 1
        if len(self._notes) < 5:
            self._notes.append(f"failed: {error!r}")

    async def _send(self, office: Office, seat: Workspace, message_id: str, *, again: bool) -> None:
        sender = Sender(key=f"person:{message_id}", workspace_id=None, user_id="p", user_name="P")
        draft = _draft(sender, message_id)
        first = await self._count(office.writer.send(seat.id, draft))
        if again and first:
            try:
                repeated = await office.writer.send(seat.id, draft)
            except Exception as error:
                self._failed(error)
            else:
                self._counts["failed"] += repeated.activity_id != first

    async def _be_refused(self, office: Office, seat: Workspace) -> None:
        """A stranger's message: refused before any number is taken."""
        other = self._orgs[self._orgs.index(seat.org_id) - 1]
        stranger = self._seats[other][0].id
        draft = _draft(Sender(key=f"workspace:{stranger}", workspace_id=stranger, user_id=None, user_name=None), None)
        try:
            await office.writer.send(seat.id, draft)
        except CommunicationDenied:
            return
        except Exception as error:
            self._failed(error)
        else:
            self._counts["not refused"] += 1

    async def _spoil(self, office: Office, place: int, way: str) -> None:
        """A command that takes numbers and then fails. Nothing of it may stay, and no number may be left unused."""
        seat = self._seats[self._orgs[0]][place]
        id_ = next(iter(self._accepted), "") if way == _WAYS_TO_FAIL[1] else office.ids.new()
        about: Any = None if way == _WAYS_TO_FAIL[2] else id_  # the column takes no NULL

        def decide() -> CommandSteps[None]:
            seq = yield NextNumber("last_seq", seat.id)
            no = yield NextNumber("last_inbound", seat.id)
            if way == _WAYS_TO_FAIL[0] or not id_:
                raise CommunicationDenied
            row = _row(seat, id_, seq, no)
            return WriteSet(
                None, [("insert_activity", row)], [JournalEvent("USER_MESSAGE", seat.id, "activity", about)]
            )

        try:
            await office.store.run(Command(seat.org_id, (), decide))
        except (CommunicationDenied, WriteConflict):
            self._counts["spoilt"] += 1
        except Exception as error:
            self._failed(error)
        else:
            self._counts["not refused"] += 1

    # -- readers -------------------------------------------------------------------------------------------------------

    async def _follow_journal(self, number: int) -> None:
        """Reads the journal of an organisation: from its beginning, or from where it stands when the reader comes."""
        dice = self._setting.dice("journal reader", number)
        org = self._orgs[number % ORGS]
        start = 0
        if number >= ORGS:
            await self._away(dice)
            start = dice.choice((0, await dice.choice(self._offices).journal.last_seq(org)))
        track = Track(org, start)
        self._journals.append(track)

        async def page(office: Office, count: int) -> list[Place]:
            async def look() -> Poll[list[Place]]:
                facts = await office.journal.read_after(org, track.seen[-1][0] if track.seen else start, count)
                return Poll([(fact.seq, fact.entity_id) for fact in facts] or None)

            return await self._wakeups.wait_until(org_key(org), look, _PAGE_SECONDS) or []

        await self._visits(dice, track, page)

    async def _follow_inbox(self, number: int) -> None:
        """Reads an inbox as the public API does: the cursor is the id of the last row seen."""
        dice = self._setting.dice("inbox reader", number)
        seat = dice.choice(self._seats[self._orgs[number % ORGS]])
        track = Track(seat.id, 0)
        self._inboxes.append(track)

        async def page(office: Office, count: int) -> list[Place]:
            seq = await office.reader.find_seq(seat.id, track.seen[-1][1]) if track.seen else 0
            rows = await office.reader.list_after(seat.id, seq or 0, _INBOX, count, wait=_PAGE_SECONDS)
            return [(row.seq, row.id) for row in rows]

        await self._visits(dice, track, page)

    async def _visits(self, dice: Any, track: Track, page: Callable[[Office, int], Awaitable[list[Place]]]) -> None:
        """Reads some pages through some office, leaves, comes back; ends when the writers have and nothing is left."""
        while True:
            office = dice.choice(self._offices)
            for _ in range(dice.randint(1, _MOST_PAGES_A_VISIT)):
                last = self._wakeups.closing
                found = await page(office, dice.randint(1, _LARGEST_PAGE))
                stuck = bool(track.seen and found and found[-1][0] <= track.seen[-1][0])
                track.seen += found
                self._counts["pages"] += 1
                self._counts["live pages"] += not self._wakeups.closing
                if stuck or (last and not found):  # a cursor that leads back to itself would never end
                    return
            await self._away(dice)

    async def _away(self, dice: Any) -> None:
        """Until others have written something more, or all."""
        left = self._setting.size - self._progress.counts["written"]
        more = min(left, dice.randint(1, max(1, self._setting.size // 20)))
        if more > 0:
            await self._progress.after("written", more, seconds=_STALL_SECONDS)

    # -- the judgement -------------------------------------------------------------------------------------------------

    def _judge(self, ledger: Ledger) -> Verdict:
        journals = {org: [(fact.seq, fact.entity_id) for fact in facts] for org, facts in ledger.journals().items()}
        logs = ledger.logs()
        inboxes = {id_: [(row.seq, row.id) for row in log if row.inbound_no] for id_, log in logs.items()}
        tracks = [(track, journals[track.source]) for track in self._journals]
        tracks += [(track, inboxes.get(track.source, [])) for track in self._inboxes]
        judged = [judge_track(track, truth) for track, truth in tracks]
        wanted = sum(each["wanted"] for each in judged)
        skipped = sum(each["skipped"] for each in judged[: len(self._journals)])
        in_journals = sum(each["wanted"] for each in judged[: len(self._journals)])
        figures: dict[str, Figure] = {
            "events": sum(map(len, journals.values())),
            "reads expected": wanted,
            "pages": self._counts["pages"],
            "of them while others wrote": self._counts["live pages"],
            "groups rolled back": self._counts["spoilt"],
            "share of the journals skipped": f"{100 * skipped / max(1, in_journals):.1f}%",
        }
        zeros = {
            **{name: sum(each[name] for each in judged) for name in ("skipped", "repeated", "out of order", "strange")},
            "journal numbers missing": sum(gaps([seq for seq, _ in facts]) for facts in journals.values()),
            "log numbers missing": sum(gaps([row.seq for row in log]) for log in logs.values()),
            "inbound numbers missing": sum(
                gaps([row.inbound_no for row in log if row.inbound_no is not None]) for log in logs.values()
            ),
            "accepted but missing": len(self._accepted - {row.id for row in ledger.rows}),
            "failed without reason": self._counts["failed"],
            "not refused": self._counts["not refused"],
            **ledger.sound(),
        }
        return Verdict(figures, zeros, self._notes)


def judge_track(track: Track, truth: Sequence[Place]) -> dict[str, int]:
    """What one reader saw from where it began, against all that stands there."""
    wanted = {place for place in truth if place[0] > track.start}
    seen = set(track.seen)
    return {
        "wanted": len(wanted),
        "skipped": len(wanted - seen),
        "repeated": len(track.seen) - len(seen),
        "out of order": descents([seq for seq, _ in track.seen]),
        "strange": len(seen - wanted),
    }


def _draft(sender: Sender, message_id: str | None) -> MessageDraft:
    message: dict[str, Any] = {"parts": [{"kind": "text", "text": f"{message_id} says hello"}]}
    sent = parse_send({"params": {"message": message}}, strict=False, limits=Limits())
    return MessageDraft(
        sender=sender,
        params=sent.params,
        message=sent.message,
        rpc_id=None,
        text=sent.text,
        intent=sent.intent,
        dedupe_key=message_id,
        context_id=None,
    )


def _row(seat: Workspace, id_: str, seq: int, inbound_no: int) -> Activity:
    return Activity(
        id=id_,
        org_id=seat.org_id,
        workspace_id=seat.id,
        seq=seq,
        inbound_no=inbound_no,
        activity_type=ActivityType.RECEIVE,
        sender="nobody",
        created_at=0,
    )


async def run(setting: Setting) -> Verdict:
    """One run of the crowd."""
    return await Crowd(setting).run()


if __name__ == "__main__":
    as_a_child(run)
