"""A run in a process of its own, so that a control's copy of the package can be put in its way."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

import molecule_core
from proofs.harness.settings import ROOT, Setting
from proofs.harness.verdicts import Verdict

# The bound of every proof.
_MOST_SECONDS = 600.0


async def in_a_child(module: str, setting: Setting, *, most_seconds: float = _MOST_SECONDS) -> Verdict:
    """What a module says that ends with `as_a_child`. RuntimeError: it broke down."""
    given = msgspec.json.encode(setting, enc_hook=str).decode()
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, given),
        cwd=ROOT,
        # The order of a set of names is part of the course of a game, which is to be the same for the same seed.
        env={**os.environ, "PYTHONPATH": setting.python_path(), "PYTHONHASHSEED": "0"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(most_seconds):
            told, trouble = await child.communicate()
    finally:
        if child.returncode is None:
            child.kill()
            await child.communicate()  # it counts as ended only once all that it has said is read
    if child.returncode:
        raise RuntimeError(f"{module} ended with {child.returncode}:\n{trouble.decode(errors='replace')}")
    return msgspec.json.decode(told, type=Verdict)


def as_a_child(run: Callable[[Setting], Awaitable[Verdict]]) -> None:
    """Reads a Setting from the first argument, runs, prints the Verdict."""
    setting = setting_of_this_child()

    async def verdict() -> Verdict:
        return await run(setting)

    print(msgspec.json.encode(asyncio.run(verdict())).decode())


def setting_of_this_child() -> Setting:
    """What the first argument says. Ends the process if its package is not the one that was loaded."""
    setting = msgspec.json.decode(sys.argv[1], type=Setting, dec_hook=lambda _type, text: Path(text))
    if setting.package is not None and setting.package not in Path(molecule_core.__file__).parents:
        sys.exit(f"molecule_core came from {molecule_core.__file__}, not from {setting.package}")
    return setting
