"""One run: canaries are made, used, misused, and looked for. What `prove secrets` plays."""

import asyncio
import contextlib
import signal
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

from molecule_core.common.tokens import hash_token
from proofs.harness.settings import START_SECONDS, Setting
from proofs.harness.verdicts import Verdict
from proofs.secrets.canaries import Cage, Place
from proofs.secrets.keeping import keeping_of
from proofs.secrets.listening import follow_the_stream, read_the_journal
from proofs.secrets.misuse import Request, calls, misuses
from proofs.secrets.model import refusing_model
from testing.connect_home import Home
from testing.ports import free_port
from testing.processes import LISTENS, MOLECULE, Process, environment, started
from testing.raw_http import Reply, ask, wire

FOUND, UNUSED, EMPTY, OPEN, UNHASHED, CALM = (
    "canaries found",
    "canaries that nobody took",
    "places without their marker",
    "token files that others can read",
    "tokens whose hash is not kept",
    "storms that broke nothing",
)
ZEROS = (FOUND, UNUSED, EMPTY, OPEN, UNHASHED, CALM)
_MARK = "marker-that-is-no-secret"
# What a model says of a key that it does not take; the key itself stands behind it.
_TROUBLE = b"Incorrect API key provided"
# What a server says that finds nobody at the address of NATS.
_WITHOUT_NATS = "wake-ups between processes are lost"
_LETTERS = "abcdefghjkmnpqrstuvwxyzABCDEFGHJKMNPQRSTUVWXYZ23456789"
_MOST_NOTES = 8
_LOGINS, _ROTATED = 4, 3
_UNHURRIED = ("requests_per_minute", "anonymous_per_minute", "sends_per_minute", "org_sends_per_minute")
_LIMITS = {f"MOLECULE_LIMIT_{name.upper()}": str(10**9) for name in (*_UNHURRIED, "logins_per_minute", "resume_events")}
_OWN = {"X-Molecule-Client": "proof"}


class Journeys:
    """One server with its agents and commands."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._dice: Random = setting.dice("canaries")
        self._cage = Cage()
        self._port = free_port()
        self._state = setting.folder / "state"
        self._keeping = keeping_of(setting)
        self._places: dict[str, Place] = {}
        self._hashed: list[str] = []
        self._seats: list[tuple[str, str]] = []
        self._people: list[tuple[str, str]] = []
        self._org = ""
        self._misused = self._refused = 0
        self._admin = self._cage.add("admin's token", "the one chosen", self._made_up("canary-of-the-admin-"))
        self._scraper = self._cage.add("scraper's token", "the one chosen", self._made_up("canary-of-the-scraper-"))
        self.verdict = Verdict(zeros=dict.fromkeys(ZEROS, 0))

    def _made_up(self, beginning: str = "", count: int = 32) -> str:
        return beginning + "".join(self._dice.choice(_LETTERS) for _ in range(count))

    def _place(self, name: str, marker: str) -> Place:
        return self._places.setdefault(name, Place(name, marker.encode()))

    # -- the course ----------------------------------------------------------------------------------------------------

    async def play(self) -> Verdict:
        """Two lives of a server, with a kill -9 between them."""
        live = self._port, self._admin
        await self._keeping.opens()
        async with self._serving(MOLECULE_LOG_FORMAT="json") as process:
            following = asyncio.create_task(follow_the_stream(*live, self._place("live stream", _MARK)))
            await self._make()
            await self._use_all()
            await self._break_the_store()
            await self._run_an_agent()
            await self._arguments(process.pid)
            await self._files("files while it runs")
            following.cancel()
            await process.kill()
            await self._heard(process)
        await self._files("files behind its death")
        async with self._serving() as process:
            await self._use_all()
            await self._commands()
            await read_the_journal(*live, self._place("journal", _MARK))
            process.send(signal.SIGTERM)
            await process.ended()
            await self._heard(process)
        await self._files("files behind its end")
        await self._refused_starts()
        self._judge()
        return self.verdict

    def _env(self, **more: str) -> dict[str, str]:
        own = {"MOLECULE_ADMIN_TOKEN": self._admin, "MOLECULE_METRICS_TOKEN": self._scraper, "MOLECULE_ACCESS_LOG": "1"}
        path = {"PYTHONPATH": self._setting.python_path(), "MOLECULE_LOG_LEVEL": "debug"}
        path |= {"MOLECULE_DATABASE": self._setting.database} if self._setting.database else {}
        return environment(self._state, self._port, **{**own, **path, **_LIMITS, **more})

    @contextlib.asynccontextmanager
    async def _serving(self, **more: str) -> AsyncIterator[Process]:
        async with started(MOLECULE, "serve", env=self._env(**more)) as process:
            await process.says(LISTENS)
            yield process

    async def _heard(self, process: Process) -> None:
        place = self._place("server's log and output", self._seats[0][0])
        place.add((process.said + await process.output()).encode())
        # Only what a broken store has caused is logged with its trace.
        if len(place.data) == 1 and "Traceback" not in process.said:
            self._fault(CALM, "nothing in the log of the store that was broken")

    # -- canaries ------------------------------------------------------------------------------------------------------

    async def _ask(self, method: str, path: str, body: Any = None, token: str = "", **headers: str) -> Reply:
        """As one should; the answer is one that may hold what it makes, and is not searched."""
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        return await ask(self._port, method, path, body, token=token or self._admin, headers=named)

    async def _make(self) -> None:
        self._org = (await self._ask("GET", "/orgs")).json[0]["id"]
        people = f"/orgs/{self._org}/people"
        for number in range(self._setting.size // 2):
            seat = (await self._ask("POST", "/workspaces", {"name": f"{_MARK} {number}"})).json
            self._seats.append((seat["id"], await self._token("seat's token", f"seat {number}", seat["connection"])))
            role = ("viewer", "operator", "owner")[number % 3]
            person = (await self._ask("POST", people, {"name": f"Person {number}", "role": role})).json
            self._people.append((person["id"], await self._token("person's token", f"person {number}", person)))
        for number, (seat_id, _) in enumerate(self._seats[:_ROTATED]):
            issued = (await self._ask("POST", f"/workspaces/{seat_id}/tokens")).json
            await self._token("issued to a seat", f"seat {number}", issued)
            # The last seats: their first tokens have been used, and end with this.
            rotated = (await self._ask("POST", f"/workspaces/{self._seats[-1 - number][0]}/external/rotate", {})).json
            await self._token("rotated", f"the last but {number}", rotated["connection"])
        for number, (person_id, _) in enumerate(self._people[:3]):
            issued = (await self._ask("POST", f"{people}/{person_id}/tokens")).json
            await self._token("issued to a person", f"person {number}", issued)
        for number in range(_LOGINS):
            await self._log_in(self._people[number][0], number)
        for number in range(2):
            made = (await self._ask("POST", f"/orgs/{self._org}/invitations", {"name": f"Guest {number}"})).json
            await self._open(made["url"], "invitation", f"guest {number}")
        await self._tell_secrets()

    async def _token(self, kind: str, name: str, answer: dict[str, Any]) -> str:
        token = self._cage.add(kind, name, answer["auth_token"])
        self._hashed.append(token)
        if (await self._ask("GET", "/openapi.json", None, token)).status == 200:
            self._cage.used(token)
        return token

    async def _log_in(self, person_id: str, number: int) -> None:
        link = (await self._ask("POST", f"/orgs/{self._org}/login-links", {"person_id": person_id})).json["url"]
        await self._open(link, "login link", f"login {number}")

    async def _open(self, url: str, kind: str, name: str) -> None:
        """Opens a link as a browser does: what stands behind the # is not sent along. Then the page sends the code."""
        code = self._cage.add(kind, name, url.rpartition("=")[2])
        target = "/" + url.partition("#")[0].split("/", 3)[3]
        self._place("what a proxy would log", "/app/").add(f"GET {target}".encode())
        await ask(self._port, "GET", target)
        reply = await ask(self._port, "POST", "/login", {"code": code}, headers=_OWN)
        if reply.status != 200:
            return
        self._cage.used(code)
        cookie = reply.headers["set-cookie"].partition(";")[0]
        session = self._cage.add("session", name, cookie.partition("=")[2])
        self._hashed.append(session)
        seen = await ask(self._port, "GET", "/session", headers={**_OWN, "Cookie": cookie})
        if seen.status == 200:
            self._cage.used(session)
        self._answer(reply._replace(headers={}))
        self._answer(seen)

    async def _tell_secrets(self) -> None:
        """What is told by mistake, and taken out: keys in memories; and an address that is refused."""
        seat, token = self._seats[0]
        for number, beginning in enumerate(("sk-proj-", "ghp_", "xoxb-")):
            key = self._cage.add("key in a memory", beginning, self._made_up(beginning, 36))
            text = {"content": f"{_MARK} {number}: the key is {key}, keep it"}
            reply = await self._ask("POST", f"/workspaces/{seat}/memories", text, token)
            if reply.status == 201 and reply.json["redacted"]:
                self._cage.used(key)
            self._answer(reply)
        for number, path in enumerate(("/workspaces", "/registry/register")):
            password = self._cage.add("password in an agent's url", path, self._made_up())
            url = f"https://user:{password}@agent.example/a2a"
            body = {"name": "Pushed", "url": url} if not number else {"id": seat, "url": url, "agent_card": {}}
            body["delivery_mode"] = "push"
            reply = await self._ask("POST", path, body, token if number else "")
            if 400 <= reply.status < 500:
                self._cage.used(password)
            self._answer(reply)

    # -- use and misuse ------------------------------------------------------------------------------------------------

    def _answer(self, reply: Reply) -> None:
        whole = f"{reply.status} {reply.headers}".encode() + reply.body
        marker = '"error"' if reply.status >= 400 else _MARK
        self._place("refusals" if reply.status >= 400 else "answers", marker).add(whole)

    async def _use_all(self) -> None:
        """Each token as one should, then as one should not; the figures, the document, and every list of hints."""
        seat = self._seats[0][0]
        for token in self._hashed:
            async with wire(self._port) as connection:
                await self._sent(calls(token, self._seat_of(token), self._org), token)
                for request in misuses(token, self._admin, seat):
                    method, path, body, headers = request
                    if not path.startswith("/ws"):
                        reply = await connection.ask(method, path, body, headers=headers)
                        self._answer(reply)
                        self._misused += 1
                        self._refused += reply.status >= 400
        for token in (self._admin, self._scraper):
            await self._sent(calls(token, seat, self._org), token)
            await self._sent(misuses(token, self._admin, seat), "")
        figures = await ask(self._port, "GET", "/metrics", token=self._scraper)
        if figures.status == 200:
            self._cage.used(self._scraper)
        self._place("figures", "molecule_http_requests_total").add(figures.body)
        document = await self._ask("GET", "/openapi.json")
        self._place("document", "/workspaces/{id}/tokens").add(document.body)
        for place in (f"/workspaces/{seat}/tokens", f"/orgs/{self._org}/people/{self._people[0][0]}/tokens"):
            self._answer(await self._ask("GET", place))

    def _seat_of(self, token: str) -> str:
        own = [seat for seat, its in self._seats if its == token]
        return own[0] if own else self._seats[0][0]

    async def _sent(self, requests: Any, token: str) -> None:
        request: Request
        for request in requests:
            method, path, body, headers = request
            reply = await ask(self._port, method, path, body, headers=headers)
            self._answer(reply)
            if token and reply.status < 300:
                self._cage.used(token)

    async def _break_the_store(self) -> None:
        """A table is gone for a while: what asks for it breaks, and is logged with its trace."""
        async with self._keeping.broken(self._state):
            broken, asked = 0, self._seats[:-_ROTATED]
            for seat, token in asked:
                reply = await self._ask("GET", f"/workspaces/{seat}/memory/some?token={token}", None, token)
                broken += reply.status >= 500
                self._answer(reply)
        if broken < len(asked):
            self._fault(CALM, f"{broken} of {len(asked)} requests broke")

    # -- processes beside it -------------------------------------------------------------------------------------------

    async def _arguments(self, pid: int) -> None:
        place = self._place("arguments of processes", "molecule")
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for each in (str(pid), *children):
            place.add(Path(f"/proc/{each}/cmdline").read_bytes())

    async def _run_an_agent(self) -> None:
        """An agent whose model refuses its key, and repeats it."""
        seat, token = self._seats[1]
        folder = self._setting.folder / "agent"
        folder.mkdir()
        key = self._cage.add("key of a model", "the agent's", self._made_up("", 40).lower())
        async with refusing_model() as model:
            lines = ["model: openai:scripted", f"base_url: {model.url}/v1", "api_key_env: A_KEY"]
            (folder / "config.yaml").write_text("\n".join(lines))
            (folder / "system-prompt.md").write_text("You are Ops.")
            env = self._env(WORKSPACE_ID=seat, MOLECULE_WORKSPACE_TOKEN=token, A_KEY=key)
            env |= {"PLATFORM_URL": f"http://127.0.0.1:{self._port}", "CONFIGS_DIR": str(folder / ".molecule")}
            env |= {"MOLECULE_MCP_VERBOSE": "1"}
            del env["MOLECULE_ADMIN_TOKEN"]
            async with started(MOLECULE, "agent", "run", str(folder), env=env, cwd=folder) as agent:
                text = {"params": {"message": {"parts": [{"kind": "text", "text": "Are you there?"}]}}}
                await self._ask("POST", f"/workspaces/{seat}/a2a", text)
                async with asyncio.timeout(START_SECONDS):
                    await model.came.wait()
                if key in model.keys:
                    self._cage.used(key)
                await self._failed_turn(seat)
                await self._arguments(agent.pid)
                agent.send(signal.SIGTERM)
                await agent.ended()
                said = agent.said + await agent.output()
        self._place("agent's log and output", seat).add(said.encode())
        files = self._place("agent's files", "model: openai:scripted")
        for path in folder.rglob("*"):
            if path.is_file():
                files.add(path.read_bytes())

    async def _failed_turn(self, seat: str) -> None:
        """Until the log of the thread tells what the model said; the log is an answer like others."""
        async with asyncio.timeout(START_SECONDS):
            while True:
                threads = (await self._ask("GET", f"/workspaces/{seat}/threads")).json["threads"]
                for each in threads:
                    items = await self._ask("GET", f"/threads/{each['thread_id']}/items")
                    if _TROUBLE in items.body:
                        self._answer(items)
                        return

    async def _commands(self) -> None:
        """What people type: each prints what it should, and no canary."""
        home = Home(self._setting.folder, self._state, self._port)
        env = {name: text for name, text in self._env().items() if name.startswith(("MOLECULE_", "PYTHONPATH"))}
        copy = self._setting.folder / "copy"
        told = self._place("what commands print", _MARK)
        verbs: tuple[tuple[str, ...], ...] = (("doctor",), ("org", "export"), ("backup", str(copy)), ("prune",))
        for verb in (*verbs, ("instructions", "list"), ("nonsense",)):
            said = await home.run(*verb, **env)
            told.add((said.out + said.err).encode())
        for each in copy.rglob("*"):
            if each.is_file():
                self._place("backup", _MARK).add(each.read_bytes())
        for host in ("claude-code", "codex"):
            said = await home.connect(host, "--workspace", self._seats[2][0], "--apply", told="y\n", **env)
            self._place("what connect prints", self._seats[2][0]).add((said.out + said.err).encode())
        wrong = await home.connect("cursor", "--workspace", "x", **{**env, "MOLECULE_TOKEN": self._people[0][1] + "x"})
        self._place("what connect prints", self._seats[2][0]).add((wrong.out + wrong.err).encode())
        for path in home.agents.glob("*.token"):
            token = self._cage.add("made by connect", path.name.split(".")[1], path.read_text().strip())
            self._hashed.append(token)
            if stat.S_IMODE(path.stat().st_mode) != 0o600:
                self._fault(OPEN, path.name)
            await self._sent(calls(token, self._seats[2][0], self._org), token)
        configured = self._place("configurations of hosts", self._seats[2][0])
        for content in home.files().values():
            configured.add(content)

    async def _refused_starts(self) -> None:
        """Servers that do not start, because of an address with a password in it; or, where processes may hear each
        other, that start without who does not answer there."""
        place = self._place("words of servers that do not start", "molecule")
        for name, scheme in (("MOLECULE_DATABASE", "postgresql"), ("MOLECULE_NATS", "nats")):
            password = self._cage.add("password in an address", scheme, self._made_up())
            more = {name: f"{scheme}://user:{password}@127.0.0.1:1/nothing"}
            async with started(MOLECULE, "serve", env=self._env(**more)) as process:
                if self._setting.engine == "postgres" and scheme == "nats":
                    await process.says(_WITHOUT_NATS)
                    process.send(signal.SIGTERM)
                    await process.ended()
                    self._cage.used(password)
                elif await process.ended():
                    self._cage.used(password)
                place.add((process.said + await process.output()).encode())

    # -- the search ----------------------------------------------------------------------------------------------------

    async def _files(self, name: str) -> None:
        place = self._place(name, _MARK)
        if self._setting.engine == "postgres":
            rows, log = self._place("rows of the database", _MARK), self._place("log of the database", _MARK)
            await self._keeping.read(place, rows, log)
        for path in self._state.rglob("*"):
            if path.is_file() and path.suffix != ".token":
                place.add(path.read_bytes())

    def _judge(self) -> None:
        kept = self._places["files behind its end"].whole
        for token in self._hashed:
            if hash_token(token).encode() not in kept:
                self._fault(UNHASHED, next(each.name for each in self._cage.canaries.values() if each.text == token))
        for name in self._cage.unused:
            self._fault(UNUSED, name)
        size = 0
        for place in self._places.values():
            whole = place.whole
            size += len(whole)
            if place.marker not in whole:
                self._fault(EMPTY, place.name)
            for name in self._cage.found_in(whole):
                self._fault(FOUND, f"{name} in {place.name}")
        kinds = self._cage.kinds()
        self.verdict.figures = {
            "canaries": sum(kinds.values()),
            "kinds": len(kinds),
            "places searched": len(self._places),
            "bytes searched": size,
            "used wrongly": self._misused,
            "of them refused": self._refused,
        }

    def _fault(self, what: str, note: str) -> None:
        self.verdict.zeros[what] += 1
        if len(self.verdict.notes) < _MOST_NOTES:
            self.verdict.notes.append(f"{what}: {note[:300]}")
