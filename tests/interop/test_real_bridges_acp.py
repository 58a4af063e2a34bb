"""Real Codex, Gemini CLI and opencode behind `molecule bridge`: kills lose nothing and answer nothing twice.

MOLECULE_BRIDGE_PROOF=1 runs the whole proof (50 messages, 20 kills each); its figures are in docs/interop.
"""

import logging
import os
from pathlib import Path

import pytest

from tests.interop.bridged_hosts import BridgedHost, company, run_with_kills
from tests.interop.host_requirements import require
from tests.interop.hosts import CODEX_CLI, GEMINI_CLI, OPENCODE_CLI

WHOLE = os.environ.get("MOLECULE_BRIDGE_PROOF") == "1"
MESSAGES, KILLS = (50, 20) if WHOLE else (4, 1)
CODEX = BridgedHost(CODEX_CLI, "codex", ())
# A fixed model: otherwise it asks another model first which one to use.
GEMINI = BridgedHost(GEMINI_CLI, "acp", ("--acp", "--skip-trust", "-m", "gemini-2.5-flash"))
OPENCODE = BridgedHost(OPENCODE_CLI, "acp", ("acp",))


@pytest.mark.parametrize("bridged", [CODEX, GEMINI, OPENCODE], ids=lambda each: each.host.name)
async def test_kills_lose_nothing_and_answer_nothing_twice(bridged: BridgedHost, tmp_path: Path) -> None:
    require(bridged.host)
    async with company(bridged, tmp_path) as found:
        figures = await run_with_kills(found, MESSAGES, KILLS, seed=28)
    logging.getLogger("molecule.tests").warning("%s: %s", bridged.host.name, figures)
    assert (figures.lost, figures.twice) == ([], [])
    if bridged is not GEMINI:  # it cannot load a session again
        assert all(known == total for known, total in figures.known.values()), figures
