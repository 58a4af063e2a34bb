"""`molecule prompt`: what an agent's system prompt says now, what has changed, and each rebuild while it lives."""

import asyncio
import os
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec

from molecule_core.agent.config import CONTAINER, BadConfiguration, read_configuration, with_only
from molecule_core.agent.gathering import Failed, Gatherer
from molecule_core.agent.home import read_home
from molecule_core.agent.prompt import Inputs, assemble
from molecule_core.agent.rebuilding import Rebuilder, Rebuilt
from molecule_core.cli.tool import WORKSPACE
from molecule_core.client.api import Api
from molecule_core.ground.clock import SystemClock
from molecule_core.ground.errors import CommandFailed
from molecule_core.ground.ids import SystemRandomness
from molecule_core.ground.settings import environment
from molecule_core.wire.prompts import Build, DiffSection, PromptView, Trigger, diff

_MOST_DIFF = 2000
_HOME = click.option(
    "--home",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The folder with config.yaml, prompt files and skills.  [default: CONFIGS_DIR, /configs, or this folder]",
)
_JSON = click.option("--json", "as_json", is_flag=True, help="As JSON, for programs.")


class _Place(NamedTuple):
    """Whose prompt it is, where its files are, and how its server is asked."""

    gatherer: Gatherer
    api: Api
    folder: Path


@click.group("prompt")
def command() -> None:
    """Show the system prompt of an agent as it is put together now.

    WORKSPACE_ID, MOLECULE_WORKSPACE_TOKEN and PLATFORM_URL say whose, as with `molecule tool`."""


@command.command()
@_HOME
@WORKSPACE
@_JSON
@click.option("--sections", is_flag=True, help="Only which sections it has: part, tokens, source, what is left out.")
@click.option("--offline", is_flag=True, help="From the agent's own files alone; no server is asked.")
@click.option("--report", is_flag=True, help="Also tell the server, so that people see it on the canvas.")
def show(home: Path | None, workspace: str | None, as_json: bool, sections: bool, offline: bool, report: bool) -> None:
    """Print the prompt. Warnings go to standard error."""
    if offline and report:
        raise CommandFailed(reason="--report tells the server, and --offline asks none; take one of both")
    folder = _folder(home)
    if offline:
        _show(assemble(Inputs(home=read_home(folder), peers=None)).build(Trigger("command", "show")), as_json, sections)
        return

    async def work(place: _Place) -> None:
        build = await _built(place, "show")
        _show(build, as_json, sections)
        if report:
            await place.gatherer.share(read_home(folder))
            await place.gatherer.tell(build)

    _run(work, folder, workspace)


@command.command("diff")
@_HOME
@WORKSPACE
@_JSON
def _diff(home: Path | None, workspace: str | None, as_json: bool) -> None:
    """Print what differs between the prompt that the server was told last and the one of now."""

    async def work(place: _Place) -> None:
        told = await place.gatherer.told()
        before = [] if told is None else msgspec.convert(told, PromptView).build.sections
        changed = diff(before, (await _built(place, "diff")).sections, _MOST_DIFF)
        if as_json:
            click.echo(msgspec.json.encode(changed).decode())
        else:
            click.echo("\n".join(_diff_lines(changed)) or "nothing differs")

    _run(work, _folder(home), workspace)


@command.command()
@_HOME
@WORKSPACE
@_JSON
@click.option("--no-report", is_flag=True, help="Do not tell the server of the prompts.")
@click.option("--until-eof", is_flag=True, help="End when standard input ends, and so with whoever started it.")
def watch(home: Path | None, workspace: str | None, as_json: bool, no_report: bool, until_eof: bool) -> None:
    """Stay, and print each new prompt's reason and difference: when own files change, when others come, go or say
    something else of themselves. Also uploads what config.yaml shares with children."""

    async def work(place: _Place) -> None:
        said: Rebuilt | None = None

        async def told(new: Rebuilt) -> None:
            nonlocal said
            build = new.prompt.build(new.trigger)
            if new is not said:
                _say(build, new.diff, as_json)
            said = new
            if not no_report:
                await place.gatherer.tell(build)

        rebuilder = Rebuilder(
            place.gatherer,
            place.folder,
            told,
            events=place.api.events,
            warned=_warn,
            clock=SystemClock(),
            randomness=SystemRandomness(),
        )
        await (_until_eof(rebuilder.run()) if until_eof else rebuilder.run())

    _run(work, _folder(home), workspace)


# -- as whom, from where -----------------------------------------------------------------------------------------------


def _folder(named: Path | None) -> Path:
    if named is not None:
        return named
    told = environment().get("CONFIGS_DIR", "").strip()
    if told:
        return Path(told).expanduser()
    return CONTAINER if CONTAINER.is_dir() and os.access(CONTAINER, os.R_OK) else Path.cwd()


def _run(work: Any, folder: Path, workspace: str | None) -> None:
    async def run() -> None:
        seats = with_only(read_configuration(environment()), workspace).seats
        if len(seats) > 1:
            raise CommandFailed(reason=f"say whose prompt with --workspace: {', '.join(each.id for each in seats)}")
        async with Api(seats[0].url, seats[0].token) as api:
            await work(_Place(Gatherer(api, seats[0].id, clock=SystemClock()), api, folder))

    try:
        asyncio.run(_quiet(run()))
    except (BadConfiguration, Failed) as error:
        raise CommandFailed(reason=error) from None
    except KeyboardInterrupt:
        return


async def _quiet(work: Coroutine[Any, Any, None]) -> None:
    """A group of tasks with one that fails fails with that one."""
    try:
        await work
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None


async def _until_eof(work: Coroutine[Any, Any, None]) -> None:
    """Does it until standard input ends."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    working, ending = asyncio.ensure_future(work), asyncio.ensure_future(_drained(reader))
    await asyncio.wait((working, ending), return_when=asyncio.FIRST_COMPLETED)
    ending.cancel()
    if working.done():
        return working.result()
    working.cancel()
    await asyncio.wait((working,))


async def _drained(reader: asyncio.StreamReader) -> None:
    """Whoever writes there is not kept, however much it is."""
    while await reader.read(1 << 16):
        pass


async def _built(place: _Place, verb: str) -> Build:
    inputs = await place.gatherer.gather(read_home(place.folder))
    return assemble(inputs).build(Trigger("command", verb))


# -- what is said ------------------------------------------------------------------------------------------------------


def _show(build: Build, as_json: bool, sections: bool) -> None:
    for warning in build.warnings:
        _warn(warning)
    if as_json:
        click.echo(msgspec.json.encode(build).decode())
    elif sections:
        for each in build.sections:
            left_out = f"  (without {each.shortened})" if each.shortened else ""
            click.echo(f"{each.part}  {each.tokens:>6}  {each.kind:<11}  {each.title}  {each.source}{left_out}")
        click.echo(f"about {build.tokens} of {build.budget} tokens")
    else:
        click.echo("\n\n".join(each.text for each in build.sections))


def _say(build: Build, changed: list[DiffSection], as_json: bool) -> None:
    for each in build.warnings:
        _warn(each)
    if as_json:
        told = {"trigger": build.trigger, "hash": build.hash, "tokens": build.tokens, "diff": changed}
        click.echo(msgspec.json.encode({**told, "warnings": build.warnings}).decode())
        return
    why = f"{build.trigger.kind} {build.trigger.detail}".strip()
    click.echo(f"{build.hash[:12]}  about {build.tokens} of {build.budget} tokens  because of: {why}")
    for line in _diff_lines(changed):
        click.echo(line)


def _diff_lines(changed: list[DiffSection]) -> list[str]:
    lines = []
    for each in changed:
        lines.append(f"@ {each.part} {each.title}: {each.change}")
        lines += [f"{line.kind} {line.text}" for line in each.lines]
    return lines


def _warn(text: str) -> None:
    click.echo(f"molecule: warning: {' '.join(text.split())}", err=True)
