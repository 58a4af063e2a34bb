"""Tries each name at each place that takes one, and looks whether anything came out or in. Started by `prove files`."""

import asyncio
import contextlib
import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from molecule_core.agent.prompt.home import read_home
from molecule_core.agent.prompt.safe_files import UnreadableFileError, read_safe_file
from proofs.files.names import hostile_name
from proofs.harness.caller import Caller
from proofs.harness.children import as_a_child
from proofs.harness.serving import ADMIN_TOKEN, ServerProcess
from proofs.harness.settings import START_SECONDS, Setting
from proofs.harness.verdicts import Figure, Verdict
from proofs.workload.company import Seat
from testing.raw_http import Reply, Wire, request, wire
from testing.upload_forms import FORM, form, id_of

_SECRET = b"what lies outside is no business of anybody's"
_FAIR = b"what lies inside, and is exactly as long .....".ljust(len(_SECRET), b".")[: len(_SECRET)]
_LOOKS_PER_NAME = 10
# Looks go on until the folder was exchanged so often, on a machine that has time for it.
_FEWEST_ROUNDS, _MOST_LOOKS, _TURN_SECONDS = 2_000, 200_000, 1e-5
_NAMES_AT_ONCE = 20
_LINKS_EVERY = 10
_MOST_NOTES = 12
READ, WRITTEN = "secrets read", "written outside"
BROKEN, LOST = "answers of 5xx", "what was asked for rightly is not there"
UNFIT = "names that are unfit for a header or a disk"
ZEROS = (READ, WRITTEN, BROKEN, UNFIT, LOST, "errors that end a server")


class Trying:
    """One run. Outside lie a secret and, beside the state folder, nothing that may change."""

    def __init__(self, setting: Setting) -> None:
        self._dice = setting.dice("names")
        self._setting = setting
        self._server = ServerProcess(setting)
        self._outside = setting.folder.parent / "outside"
        self._home = setting.folder.parent / "home"
        self.zeros = dict.fromkeys(ZEROS, 0)
        counted = (
            "names tried",
            "names in configurations",
            "looks at links",
            "of them fair",
            "files uploaded",
            "links planted",
        )
        self.figures = dict.fromkeys(counted, 0)
        self.notes: list[str] = []

    async def run(self) -> Verdict:
        """Everything, on one server."""
        for folder in (self._outside, self._home / "docs", self._setting.folder.parent / "elsewhere"):
            folder.mkdir(parents=True)
        (self._outside / "secret.md").write_bytes(_SECRET)
        (self._home / "docs" / "fair.md").write_bytes(_FAIR)
        before = self._seen_outside()
        try:
            await self._server.start()
            await self._found()
            async with wire(self._server.port) as self._line:
                for number in range(self._setting.size):
                    await self._try(hostile_name(self._outside, self._dice), number)
            self._read_homes()
            self._race()
            self.zeros["errors that end a server"] += await self._server.stop() != 0
        finally:
            await self._server.kill()
        self.zeros["errors that end a server"] += self._server.ended_by_itself
        if (after := self._seen_outside()) != before:
            self._fault(WRITTEN, str(sorted(set(after) ^ set(before)))[:300])
        figures: dict[str, Figure] = {**self.figures}
        return Verdict(figures, self.zeros, [*self.notes, *self._server.errors[:3]])

    def _seen_outside(self) -> dict[str, bytes]:
        """Everything beside the state folder, and what lies in the state folder under a name of somebody."""
        found = {str(path): path.read_bytes() for path in sorted(self._outside.rglob("*")) if path.is_file()}
        ours = ("state", "outside", "home", "elsewhere", "package")
        found |= {str(path): b"" for path in self._setting.folder.parent.iterdir() if path.name not in ours}
        strange = list(self._setting.folder.rglob("*secret*"))
        return found | {str(path): b"" for path in strange}

    def _fault(self, what: str, note: str) -> None:
        self.zeros[what] += 1
        if len(self.notes) < _MOST_NOTES:
            self.notes.append(f"{what}: {note[:300]}")

    async def _found(self) -> None:
        async with Caller(self._server.port, ADMIN_TOKEN) as admin:
            self._seat = Seat(await admin.post("/workspaces", {"name": "Files"}))
        self._at = f"/workspaces/{self._seat.id}"

    # -- the server ----------------------------------------------------------------------------------------------------

    async def _try(self, name: str, number: int) -> None:
        """One name, at every place."""
        self.figures["names tried"] += 1
        await self._upload(name, linked=number % _LINKS_EVERY == 0)
        spelled = quote(name, safe="/.%") if self._dice.random() < 0.5 else quote(name, safe="")
        for path in (
            f"{self._at}/files/{spelled}",
            f"{self._at}/files/{spelled}/preview",
            f"{self._at}/pending-uploads/{spelled}/content",
            f"/app/{spelled}",
            f"/{spelled}",
            f"{self._at}/memory/{spelled}",
        ):
            await self._ask("GET", path)
        texts: tuple[tuple[str, str, Any], ...] = (
            ("POST", "/notify", {"message": "x", "attachments": [{"uri": f"{self._at}/files/{name}", "name": name}]}),
            ("POST", "/memory", {"key": name, "value": "x"}),
            ("PUT", "/shared-context", {"files": [{"path": name, "content": "x"}]}),
        )
        for method, path, body in texts:
            await self._ask(method, self._at + path, json.dumps(body).encode())

    async def _upload(self, name: str, *, linked: bool) -> None:
        try:
            body = form((name, _FAIR))
        except UnicodeEncodeError:
            return
        reply = await self._ask("POST", f"{self._at}/chat/uploads", body, FORM)
        if reply is None or reply.status != 200:
            return  # refused, which is as good
        (file,) = reply.json["files"]
        self.figures["files uploaded"] += 1
        if any(sign in file["name"] for sign in "/\\\x00\r\n") or file["name"] in ("", ".", ".."):
            self._fault(UNFIT, f"{name!r} became {file['name']!r}")
        place = f"{self._at}/files/{id_of(file)}"
        if linked:
            kept = self._setting.folder / "files" / id_of(file)
            kept.unlink()
            kept.symlink_to(self._outside / "secret.md")
            self.figures["links planted"] += 1
            reply = await self._ask("GET", place)
            if reply is not None and reply.status == 200:
                self._fault(READ, f"a link was followed for {name!r}")
            return
        reply = await self._ask("GET", place)
        if reply is None or reply.body != _FAIR:
            self._fault(LOST, f"{name!r}: {reply}")

    async def _ask(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> Reply | None:
        """What is answered; None if the line was closed, and then there is a new one."""
        data = request(method, path, body, token=self._seat.token, headers=headers or {})
        try:
            await self._line.send(data)
            reply = await self._line.reply(START_SECONDS)
        except (ConnectionError, EOFError):
            await self._line.close()
            reader, writer = await asyncio.open_connection("127.0.0.1", self._server.port, limit=1 << 20)
            self._line = Wire(reader, writer)
            return None
        if _SECRET in reply.body or b"root:x:0" in reply.body:
            self._fault(READ, f"{method} {path[:200]}: {reply.status}")
        if reply.status >= 500:
            self._fault(BROKEN, f"{method} {path[:200]}: {reply}")
        if reply.headers.get("connection") == "close":
            with contextlib.suppress(ConnectionError):
                await self._line.close()
            reader, writer = await asyncio.open_connection("127.0.0.1", self._server.port, limit=1 << 20)
            self._line = Wire(reader, writer)
        return reply

    # -- an agent's own files ------------------------------------------------------------------------------------------

    def _read_homes(self) -> None:
        """Configurations that name such paths, and one that is right in each of them."""
        for _ in range(0, self._setting.size, _NAMES_AT_ONCE):
            names = [hostile_name(self._outside, self._dice) for _ in range(_NAMES_AT_ONCE)]
            lists = dict.fromkeys(("rules", "shared_context", "skills"), names)
            lists["prompt_files"] = ["docs/fair.md", *names]
            lines = [f"{key}: {json.dumps(each)}" for key, each in lists.items()]
            (self._home / "config.yaml").write_text("\n".join(lines), encoding="utf-8", errors="replace")
            home = read_home(self._home)
            texts = [each.text for each in (*home.prompts, *home.rules, *(home.shared or ()))]
            texts += [each.body for each in home.skills]
            if any(_SECRET.decode() in text or "root:x:0" in text for text in texts):
                self._fault(READ, f"by a configuration: {names}")
            if home.prompts and home.prompts[0].text.encode() != _FAIR:
                self._fault(LOST, str(home.warnings[:3]))
            for name in names:  # and each for itself: a broken configuration reads nothing
                self.figures["names in configurations"] += 1
                with contextlib.suppress(UnreadableFileError, UnicodeEncodeError):
                    if read_safe_file(self._home, name, 1 << 16).encode() == _SECRET:
                        self._fault(READ, f"{name!r} was read")

    def _race(self) -> None:
        """A folder is exchanged for a link, and back, while the file in it is read."""
        inside, aside = self._home / "docs", self._home / "docs.aside"
        link = self._home / "docs.link"
        link.symlink_to(self._outside)
        (self._outside / "fair.md").write_bytes(_SECRET)
        looks, most = 0, self._setting.size * _LOOKS_PER_NAME
        with _exchanging(inside, aside, link) as rounds:
            while looks < most or (len(rounds) < _FEWEST_ROUNDS and looks < _MOST_LOOKS):
                looks += 1
                self.figures["looks at links"] += 1
                try:
                    found = read_safe_file(self._home, "docs/fair.md", 1 << 16).encode()
                except UnreadableFileError:
                    continue
                self.figures["of them fair"] += found == _FAIR
                if found == _SECRET:
                    self._fault(READ, "behind a link that took the place of a folder")
        (self._outside / "fair.md").unlink()
        if not self.figures["of them fair"]:
            self._fault(LOST, "no look found the file")


@contextlib.contextmanager
def _exchanging(inside: Path, aside: Path, link: Path) -> Iterator[list[None]]:
    """Renames in a thread of its own, until the block ends; a list with an entry for each time. Threads take turns as
    often as they can."""
    is_over, rounds, before = threading.Event(), list[None](), sys.getswitchinterval()

    def exchange() -> None:
        while not is_over.is_set():
            inside.rename(aside)
            link.rename(inside)
            inside.rename(link)
            aside.rename(inside)
            rounds.append(None)

    sys.setswitchinterval(_TURN_SECONDS)
    thread = threading.Thread(target=exchange)
    thread.start()
    try:
        yield rounds
    finally:
        is_over.set()
        thread.join()
        sys.setswitchinterval(before)


async def run(setting: Setting) -> Verdict:
    """`setting.size` names."""
    return await Trying(setting).run()


if __name__ == "__main__":
    as_a_child(run)
