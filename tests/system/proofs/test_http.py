"""`scripts/prove http` with few inputs, and the mistakes that it must see."""

import pytest

from proofs.harness.controls import Control
from proofs.harness.settings import setting, try_control
from proofs.http.bending import bent
from proofs.http.contract import Operation, flaw_of, flaw_of_rpc
from proofs.http.proof import PROOF
from proofs.http.storm import BENT, CALLS, CARDS, FRAMES, MADE, UNFIT
from testing.raw_http import Reply, request
from tests.requirements import requirement
from tests.system.proofs.sampling import one_of

SEED = 5
_FEW = 1_200
JSON = {"content-type": "application/json"}


@requirement("S14", "N1")
async def test_whatever_is_sent_is_answered_as_the_document_says() -> None:
    async with setting("sqlite", "", seed=SEED, size=_FEW) as given:
        verdict = await PROOF.run(given)

    assert verdict.broken == {}, verdict.notes
    sent = (MADE, BENT, CALLS, CARDS, FRAMES)
    assert sum(int(verdict.figures[name]) for name in sent) >= _FEW - len(sent)
    assert 0 < int(verdict.figures[UNFIT]) < int(verdict.figures[MADE]), "what fits the document is not hostile"
    assert min(int(verdict.figures[name]) for name in ("done", "refused", "valid requests between")) > 50
    assert int(verdict.figures["of them done"]) > 50


@pytest.mark.exhaustive
@pytest.mark.parametrize("control", one_of(PROOF.controls["sqlite"]), ids=lambda each: each.name)
async def test_a_product_with_a_mistake_is_seen(control: Control) -> None:
    verdict = await try_control(PROOF, control, "sqlite", "", seed=SEED)

    assert verdict.zeros[control.breaks] > 0, verdict.line()


async def test_what_is_bent_is_no_longer_what_it_was_and_the_same_for_the_same_seed() -> None:
    good = request("POST", "/orgs", b'{"name": "A"}', token="t")
    async with setting("sqlite", "", seed=SEED, size=1) as given:
        once, again = ([bent(good, dice) for _ in range(300)] for dice in (given.dice("x"), given.dice("x")))

    assert once == again
    assert sum(each != good for each in once) > 290


def test_an_answer_that_is_not_declared_is_seen() -> None:
    schema = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
    responses = {"201": {"content": {"application/json": {"schema": schema}}}, "4XX": {}}
    made = Operation("post", "/things", {"responses": responses}, {})

    assert made.break_of(Reply(201, JSON, b'{"id": "a"}')) is None
    assert made.break_of(Reply(201, JSON, b'{"id": 7}')) is not None
    assert made.break_of(Reply(201, JSON, b"{")) is not None
    assert made.break_of(Reply(201, {"content-type": "text/html"}, b"{}")) is not None
    assert made.break_of(Reply(200, JSON, b'{"id": "a"}')) is not None
    assert made.break_of(Reply(500, JSON, b"{}")) is not None


def test_a_refusal_that_is_none_is_seen() -> None:
    assert flaw_of(Reply(404, JSON, b'{"error": "no", "code": "not_found", "status": 404}')) is None
    assert flaw_of(Reply(404, JSON, b'{"error": "no", "code": "not_found", "status": 400}')) is not None
    assert flaw_of(Reply(404, JSON, b'{"detail": "no"}')) is not None
    assert flaw_of(Reply(404, {"content-type": "text/plain"}, b"no")) is not None
    assert flaw_of_rpc({"jsonrpc": "2.0", "id": 1, "error": {"code": -1, "message": "no"}}) is None
    assert flaw_of_rpc({"jsonrpc": "2.0", "id": 1}) is not None
    assert flaw_of_rpc({"jsonrpc": "2.0", "id": 1, "error": {"code": "x"}}) is not None
