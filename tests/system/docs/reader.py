"""A reader of a page: runs its blocks in order, in a scratch home and a scratch clone, and compares what they print."""

import contextlib
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from testing.other_users import AS_USER, IS_ROOT, SERVER_USER, make_state_folder, public_folder
from testing.ports import free_port
from testing.processes import ROOT
from tests.system.docs.blocks import RUN, Block, commands_of, read_blocks, read_entries, read_other
from tests.system.docs.printed_output import find_difference
from tests.system.docs.shells import Ran, Shell

_PRINTED_PORT = "8080"
_EXIT_CODE = re.compile(r"#[^\n]*exit code (\d+)")

# 1 s: an end that happened during the last command is reported a moment later.
_END_SECONDS = 1.0


class Scenario(NamedTuple):
    """What a page needs.

    `before`: commands that a reader has run earlier; their variables are there in each terminal. `fill`: what stands
    for placeholders, in this order. `files`: blocks of the page, by language, that its reader saves as files.
    `between`: what happens right before the command that begins with a text. `after`: what shows that the page has
    worked. `is_served`: a server runs before the first block. `is_installed`: it runs as the user `molecule`, with its
    state in /var/lib/molecule and its programs in /opt/molecule/bin, and `sudo -u molecule` becomes that user.
    """

    before: str = ""
    fill: Mapping[str, str] = {}
    files: Mapping[str, str] = {}
    between: Mapping[str, str] = {}
    after: str = ""
    is_served: bool = True
    is_installed: bool = False


_SERVER = "molecule up"
_SERVER_OF_USER = "sudo -u molecule /opt/molecule/bin/molecule up --state-dir /var/lib/molecule"
_SUDO = """#!/bin/sh
[ "$1 $2" = "-u molecule" ] && [ "$3" = molecule ] || exit 9
shift 3
exec "{python}" -P "{as_user}" {user} "$@"
"""


class Reader:
    """A reader of one page: a home, a clone and terminals of their own. Nothing leads out of this machine."""

    def __init__(self, folder: Path, scenario: Scenario) -> None:
        self.folder, self.port = folder, free_port()
        self.home, self.clone = folder / "home", folder / "clone"
        self._scenario = scenario
        self._staying: list[tuple[Block, Shell]] = []
        self._terminals = 0
        make_clone(self.clone)
        self.home.mkdir()
        self.environment = {
            "HOME": str(self.home),
            "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.defpath)),
            "LANG": "C.UTF-8",
            "MOLECULE_PORT": str(self.port),
            "MOLECULE_URL": f"http://127.0.0.1:{self.port}",
            "MOLECULE_CONNECT_WAIT": "0",  # no host starts: `connect` must not wait for it
            "START": str(self.clone),
            **dict.fromkeys(("http_proxy", "https_proxy"), "http://127.0.0.1:9"),  # discard: no network
            "no_proxy": "127.0.0.1,localhost",
        }
        self._installed = contextlib.ExitStack()
        if scenario.is_installed:
            self._install()
        self.main = self.open()

    def _install(self) -> None:
        """Make the state folder of a user, and a `sudo` that becomes that user."""
        public = self._installed.enter_context(public_folder())
        self._state = make_state_folder(public, SERVER_USER if IS_ROOT else os.geteuid())
        sudo = self.folder / "bin" / "sudo"
        sudo.parent.mkdir()
        sudo.write_text(_SUDO.format(python=sys.executable, as_user=AS_USER, user=SERVER_USER), encoding="utf-8")
        sudo.chmod(0o755)
        self.environment["PATH"] = os.pathsep.join((str(sudo.parent), self.environment["PATH"]))

    def open(self) -> Shell:
        """Open a terminal in the clone, with what was exported before the page."""
        self._terminals += 1
        shell = Shell(self.folder / f"terminal-{self._terminals}", self.environment, self.clone)
        shell.run('if [ -e "$HOME/variables" ]; then . "$HOME/variables"; fi; cd "$START"')
        return shell

    def prepare(self) -> None:
        """Do what the page presupposes."""
        if self._scenario.is_served:
            shell, command = self.open(), _SERVER_OF_USER if self._scenario.is_installed else _SERVER
            self._staying.append((Block("", 0, "sh", command, stays_until="state  "), shell))
            shell.run_until(self.filled(command), "state  ")
        self._presuppose(self._scenario.before)
        self.main.run('export -p >"$HOME/variables"')

    def _presuppose(self, text: str) -> None:
        if self._scenario.is_installed:
            text = self.filled(text)
        ran = self.main.run(text.replace(_PRINTED_PORT, str(self.port)))
        assert ran.failures == [], f"around the page: {ran.failures}\n{ran.output}"

    def filled(self, text: str) -> str:
        """Put in what stands for the placeholders and the port."""
        for printed, real in self._scenario.fill.items():
            text = text.replace(printed, real)
        if self._scenario.is_installed:
            text = text.replace("/opt/molecule/bin/", "").replace("/var/lib/molecule", str(self._state))
        return text.replace(_PRINTED_PORT, str(self.port))

    def run(self, block: Block) -> list[str]:
        """Run a block. Returns what differs from the page."""
        if block.is_alone:
            self._end_all()
        if block.stays_until is not None:
            return self._start(block)
        if block.language == "sh":
            return self._run_command(block.text, block.outputs, block.place)
        differences = []
        for entry in read_entries(block):
            outputs = [entry.output] if entry.output else []
            differences += self._run_command(entry.command, outputs, block.place)
        return differences

    def _run_command(self, text: str, outputs: list[str], place: str) -> list[str]:
        self._pass_time(text)
        ran = self.main.run(self.filled(text))
        return [*find_wrong_codes(text, ran, place), *self._compare(outputs, ran.output, place)]

    def _start(self, block: Block) -> list[str]:
        self._pass_time(block.text)
        shell = self.open()
        self._staying.append((block, shell))
        try:
            output = shell.run_until(self.filled(commands_of(block)), block.stays_until or "")
        except AssertionError as error:
            return [f"{block.place}: {error}"]
        return self._compare(block.outputs[:1], output.read_text(encoding="utf-8"), block.place)

    def _pass_time(self, text: str) -> None:
        for beginning, commands in self._scenario.between.items():
            if text.startswith(beginning):
                self._presuppose(commands)

    def _compare(self, outputs: list[str], real: str, place: str) -> list[str]:
        if self._scenario.is_installed:
            outputs = [self.filled(each) for each in outputs]
        differences = (find_difference(printed, real) for printed in outputs)
        return [f"{place}: {each}" for each in differences if each]

    def finish(self) -> list[str]:
        """Look at what the page has brought about. Returns the blocks that should have kept running and did not."""
        self._presuppose(self._scenario.after)
        return [f"{block.place}: it ended by itself" for block, shell in self._staying if shell.has_ended(_END_SECONDS)]

    def _end_all(self) -> None:
        while self._staying:
            self._staying.pop()[1].close()

    def close(self) -> None:
        """End all terminals."""
        self._end_all()
        self.main.close()
        self._installed.close()


@contextlib.contextmanager
def reading(folder: Path, scenario: Scenario) -> Iterator[Reader]:
    """A reader of a page, until the block ends."""
    reader = Reader(folder, scenario)
    try:
        reader.prepare()
        yield reader
    finally:
        reader.close()


def run_page(page: Path, folder: Path, scenario: Scenario, root: Path = ROOT) -> list[str]:
    """Run the blocks of a page in order. Returns what differs; a failure ends it, as later blocks need earlier ones."""
    blocks = [block for block in read_blocks(page, root) if block.kind == RUN]
    with reading(folder, scenario) as reader:
        for name, language in scenario.files.items():
            (reader.clone / name).write_text(read_other(page, language), encoding="utf-8")
        for block in blocks:
            if differences := reader.run(block):
                return differences
        return reader.finish()


def find_wrong_codes(text: str, ran: Ran, place: str) -> list[str]:
    """Compare the commands that failed with the exit codes that the text announces: `# ... exit code 1`."""
    announced = [int(code) for code in _EXIT_CODE.findall(text)]
    if [code for code, _ in ran.failures] == announced:
        return []
    failed = "; ".join(f"{command} ended with {code}" for code, command in ran.failures) or "nothing failed"
    return [f"{place}: {failed} (announced: {announced})\n{ran.output}"]


def make_clone(folder: Path) -> None:
    """Make a folder like a checkout, in which commands may write: links to the real one, and `scripts/up` without its
    set-up."""
    folder.mkdir(parents=True)
    for entry in ROOT.iterdir():
        if entry.name == "examples":
            shutil.copytree(entry, folder / entry.name)  # agents keep their state in their folders
        elif entry.name not in ("scripts", "dist", ".git"):
            (folder / entry.name).symlink_to(entry)
    (folder / "scripts").mkdir()
    up = folder / "scripts" / "up"
    up.write_text('#!/bin/sh\nexec molecule up "$@"\n', encoding="utf-8")
    up.chmod(0o755)
