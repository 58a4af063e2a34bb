"""With the layer off, not one byte of any delivery is another than it was before there was one."""

from pathlib import Path

from testing.engines import Engine
from tests.instructions.delivery_transcript import SNAPSHOT, record
from tests.requirements import requirement


@requirement("I4", "W1")
async def test_a_recorded_walk_is_the_same_with_the_layer_off(engine: Engine, place: str, tmp_path: Path) -> None:
    assert await record(engine, place, tmp_path) == SNAPSHOT.read_text(encoding="utf-8")


@requirement("I4")
async def test_the_same_walk_is_another_one_with_the_layer_on(engine: Engine, place: str, tmp_path: Path) -> None:
    walked = await record(engine, place, tmp_path, push_instructions_enabled=True)

    before = SNAPSHOT.read_text(encoding="utf-8").splitlines()
    changed = [was for was, now in zip(before, walked.splitlines(), strict=True) if was != now]
    assert len(changed) > 10
    assert not [line for line in changed if line.startswith("admin:")]
