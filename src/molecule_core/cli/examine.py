"""What `molecule doctor` looks at: each look is one line, and one advice if something is wrong."""

import asyncio
import errno
import os
import shutil
import socket
import sys
from importlib import resources
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from molecule_core.cli.options import BACKUP_STAMP
from molecule_core.client.api import Api, ApiError, NoAnswer
from molecule_core.ground import machine
from molecule_core.ground.clock import DAY, SECOND, Clock
from molecule_core.ground.errors import BackupFailed
from molecule_core.ground.limits import SPARE_FILES, Limits
from molecule_core.ground.settings import Settings
from molecule_core.store.backup import Facts, database_in, facts_of, fault_of, is_in_use, sqlite_version
from molecule_core.store.database import SCHEMA_VERSION

# Below this, a flood or a backup fills the disk before somebody looks.
_LEAST_FREE_BYTES = 1 << 30
_ANSWER_SECONDS = 5.0
# HTTP's statuses of refusals begin here; a Molecule server answers no look at its health with one below, but 200.
_REFUSALS = 400
OLDEST_PYTHON = (3, 11)
# Earlier ones may damage a database whose write-ahead log is reset while somebody reads.
OLDEST_SQLITE = (3, 51, 3)
# The oldest that its makers still mend.
_OLDEST_POSTGRES = 14
# One server's: eight readers, one writer, one that listens; and some for backup, doctor and a person.
_LEAST_CONNECTIONS = 15
# Fewer are too few for a company, whatever the limit of connections says.
_FEW_CONNECTIONS = 1024
# Written files that are newer than now, or a time before this program was written: the clock is wrong.
_CLOCK_SECONDS = 300
_PROGRAM_WRITTEN = 1_760_000_000 * SECOND
_BACKUP_DAYS = 7


class Finding(NamedTuple):
    """One look: what was looked at, what was seen, and what to do if that is bad."""

    what: str
    seen: str
    advice: str = ""


def check_python(version: tuple[int, ...] = sys.version_info[:3]) -> Finding:
    """The Python is one that we test with."""
    seen = ".".join(map(str, version[:3]))
    if version[:2] < OLDEST_PYTHON:
        return Finding("python", seen, "install Python 3.11 or newer, and Molecule again with it")
    return Finding("python", seen)


def check_sqlite(version: str | None = None) -> Finding:
    """The SQLite that we carry is one without the bug of its log."""
    seen = version or sqlite_version()
    if tuple(map(int, seen.split("."))) < OLDEST_SQLITE:
        return Finding("sqlite", seen, "pip install --upgrade apsw: this SQLite can damage a store (fixed in 3.51.3)")
    return Finding("sqlite", seen)


def check_folder(state: Path) -> Finding:
    """The folder is there, belongs to us alone, and can be written."""
    what = "state folder"
    if not state.is_dir():
        return Finding(what, f"{state} is not there", "start `molecule serve` once, or name the right --state-dir")
    mode = state.stat().st_mode & 0o777
    if mode & 0o077:
        return Finding(what, f"others can look into {state} (mode {mode:o})", f"chmod 700 {state}")
    if not os.access(state, os.W_OK | os.X_OK):
        return Finding(what, f"{state} cannot be written", "run as the user that owns it")
    return Finding(what, str(state))


def check_disk(state: Path) -> Finding:
    """There is room."""
    place = state
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if free < _LEAST_FREE_BYTES:
        return Finding("disk", f"{free >> 20} MiB free", "make room on that disk: at least 1 GiB")
    return Finding("disk", f"{free >> 30} GiB free")


def check_clock(state: Path, clock: Clock) -> Finding:
    """The time is later than everything that was written."""
    now, files = clock.now(), [*state.iterdir()] if os.access(state, os.R_OK | os.X_OK) else []
    newest = max((path.lstat().st_mtime_ns // 1000 for path in files), default=0)
    if now < _PROGRAM_WRITTEN:
        return Finding("clock", "it stands in the past", "set the clock (timedatectl set-ntp true), then start anew")
    if newest > now + _CLOCK_SECONDS * SECOND:
        late = (newest - now) // SECOND
        advice = "set the clock (timedatectl set-ntp true): leases, expiry and retention go by it"
        return Finding("clock", f"it is {late:,} s behind the newest file of the store", advice)
    return Finding("clock", "sound")


def check_files(settings: Settings, most: int | None = None) -> Finding:
    """As many connections as the operator wants can be opened. (A server takes fewer where it may not open as many.)"""
    most = machine.most_open_files() if most is None else most
    wanted = settings.limits.connections
    need = SPARE_FILES + (wanted if wanted != Limits().connections else min(wanted, _FEW_CONNECTIONS))
    if most < need:
        fewer = max(1, most - SPARE_FILES)
        advice = f"LimitNOFILE={need} in the unit (or ulimit -Hn), or MOLECULE_LIMIT_CONNECTIONS={fewer}"
        return Finding("open files", f"{most:,} allowed, {need:,} needed", advice)
    return Finding("open files", f"{most:,} allowed")


def check_url(settings: Settings) -> Finding:
    """The address that agents and people are told can be one."""
    what, url = "public url", settings.public_url
    if not url:
        return Finding(what, f"none; agents are told {settings.url}")
    advice = "set MOLECULE_PUBLIC_URL to what people open, such as https://molecule.example"
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        return Finding(what, "no address", advice)
    if not known or parts.username or parts.query or parts.fragment:
        return Finding(what, "no address of a server (http or https, a host, no user, no query)", advice)
    if parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
        return Finding(
            what, "unencrypted", "put a proxy with TLS before it, and set MOLECULE_PUBLIC_URL to its https://…"
        )
    return Finding(what, f"{parts.scheme}://{parts.netloc}")


def check_canvas() -> Finding:
    """The page has been built into the package."""
    if resources.files("molecule_core").joinpath("canvas_assets", "index.html").is_file():
        return Finding("canvas", "built")
    return Finding("canvas", "not built", "scripts/canvas build, in the checkout; or install a wheel, which carries it")


# -- the store ---------------------------------------------------------------------------------------------------------


def check_store(settings: Settings) -> tuple[Finding, Facts | None]:
    """The store answers, is whole, and this version knows it; and its facts."""
    return _check_postgres(settings.database) if settings.database else _check_sqlite_store(settings.state)


def _check_sqlite_store(state: Path) -> tuple[Finding, Facts | None]:
    database = database_in(state)
    if not database.exists():
        return Finding("store", "there is none yet: the first start makes it"), None
    if fault := fault_of(database):
        return Finding("store", fault, "stop the server and put a backup back: molecule restore COPY"), None
    facts = facts_of(database)
    use = ", in use by a server" if is_in_use(state) else ""
    return Finding("store", f"sound, {_schema(facts)}{use}"), facts


def _check_postgres(dsn: str) -> tuple[Finding, Facts | None]:
    from molecule_core.store.copies import postgres_facts

    try:
        found = asyncio.run(postgres_facts(dsn))
    except BackupFailed as error:
        advice = "start PostgreSQL, or set MOLECULE_DATABASE to where it is (psql can try it)"
        return Finding("store", f"PostgreSQL does not answer: {error.details['reason']}", advice), None
    seen = f"PostgreSQL {found.server // 10_000}"
    if found.server // 10_000 < _OLDEST_POSTGRES:
        return Finding("store", seen, f"upgrade it to {_OLDEST_POSTGRES} or newer"), found.store
    if found.free < _LEAST_CONNECTIONS:
        advice = f"raise max_connections: each server takes 10; {_LEAST_CONNECTIONS} should be free"
        return Finding("store", f"{seen}, {found.free} connections free", advice), found.store
    if found.store is not None and found.store.schema > SCHEMA_VERSION:
        advice = "install the Molecule that wrote it, or put an older copy into a new database: molecule restore COPY"
        return Finding("store", f"{seen}, schema {found.store.schema}, of a newer Molecule", advice), found.store
    return Finding("store", f"{seen}, {'empty' if found.store is None else _schema(found.store)}"), found.store


def _schema(facts: Facts) -> str:
    if facts.schema < SCHEMA_VERSION:
        return f"schema {facts.schema}: the next start brings it to {SCHEMA_VERSION} and leaves a copy"
    return f"schema {facts.schema}"


def check_backup(settings: Settings, facts: Facts | None, clock: Clock) -> Finding:
    """A store that has lived for a while has been copied lately."""
    now, advice = clock.now(), "molecule backup FILE, every day; docs/operations.md has a timer for it"
    stamp = settings.state / BACKUP_STAMP
    last = stamp.stat().st_mtime_ns // 1000 if stamp.exists() else None
    if last is not None:
        days = (now - last) // DAY
        return Finding("backup", f"{days} days old", advice if days > _BACKUP_DAYS else "")
    if facts is None or facts.began_at is None or now - facts.began_at <= _BACKUP_DAYS * DAY:
        return Finding("backup", "none yet")
    return Finding("backup", "there was never one", advice)


# -- the server --------------------------------------------------------------------------------------------------------


def check_server(settings: Settings) -> Finding:
    """The server answers at its address, and is ready."""
    what, url = "server", f"{settings.url}/ready"
    start = f"start it with `molecule serve --port {settings.port}`, or name its --host and --port"
    try:
        status = asyncio.run(_readiness(settings.url))
    except ApiError as error:
        if error.status < _REFUSALS:
            return Finding(what, f"{url} is answered by something else", start)
        return Finding(
            what, f"{url} answers {error.status}", "look into its log: it says why the store does not answer"
        )
    except NoAnswer as error:
        if _is_taken(settings):
            return Finding(
                what,
                f"port {settings.port} is taken, and {url} does not answer",
                f"see who has it: ss -ltnp 'sport = :{settings.port}'",
            )
        return Finding(what, f"no answer from {url}: {error}", start)
    if status != "ready":
        return Finding(what, f"{url} is answered by something else", start)
    return Finding(what, f"ready at {settings.url}")


async def _readiness(url: str) -> str:
    async with Api(url, seconds=_ANSWER_SECONDS) as api:
        answer = await api.get("/ready")
        return str(answer.get("status", "")) if isinstance(answer, dict) else ""


def _is_taken(settings: Settings) -> bool:
    """Whether somebody listens on the server's port of this machine."""
    with socket.socket(socket.AF_INET6 if ":" in settings.host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.host, settings.port))
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False
