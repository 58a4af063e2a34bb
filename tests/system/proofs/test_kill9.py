"""`scripts/prove kill9` at a tenth, and the mistakes that it must see."""

import pytest

from proofs.harness.controls import Control
from proofs.harness.settings import prove, try_control
from proofs.kill9.mistakes import OF_AGENTS
from proofs.kill9.proof import PROOF
from testing.engines import Engine
from tests.requirements import requirement
from tests.system.proofs.sampling import one_of

SEED = 9
# What goes wrong above the store goes wrong on both engines; the commit is each engine's own.
CONTROLS = [
    *(pytest.param("sqlite", each, id=each.name) for each in one_of(PROOF.controls["sqlite"])),
    pytest.param("sqlite", OF_AGENTS[0], id=OF_AGENTS[0].name),
]


@requirement("P1", "P2", "D1", "D2", "D7", "D9", "Q1", "Q4", "TH3", "TH7", "TH9")
@pytest.mark.parametrize("engine", ["sqlite", pytest.param("postgres", marks=pytest.mark.exhaustive)])
async def test_nothing_that_was_accepted_suffers_from_kills(engine: Engine, postgres: str) -> None:
    verdict = await prove(PROOF, engine, postgres, seed=SEED, tenth=True)

    assert verdict.broken == {}, verdict.notes
    kills = PROOF.sizes[engine] // 10
    assert verdict.figures["kills"] == kills
    assert int(verdict.figures["agent kills"]) >= kills // 2
    done = [
        int(verdict.figures[name])
        for name in (
            *("delegations", "pushed", "taken by who waited", "past their deadline", "given again"),
            *("stale acks sent", "late acks refused"),
        )
    ]
    assert min(done) > 0, done
    nouns = [
        *("values put", "values removed", "memories", "forgotten"),
        *("approvals", "approved", "denied", "used", "used again and refused", "left to expire"),
        "messages to these agents",  # in ten kills of an agent none may hit it while it calls a tool
        *("threads", "agents spawned", "said to threads", "turns ended", "letters between threads"),
    ]
    assert [name for name in nouns if not verdict.figures[name]] == []


@pytest.mark.exhaustive
@pytest.mark.parametrize(("engine", "control"), CONTROLS)
async def test_a_product_with_a_mistake_is_seen(engine: Engine, control: Control, postgres: str) -> None:
    verdict = await try_control(PROOF, control, engine, postgres, seed=SEED)

    assert verdict.zeros[control.breaks] > 0, verdict.line()
