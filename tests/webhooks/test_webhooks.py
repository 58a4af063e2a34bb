"""Webhooks of tasks: what is posted, in which order, when it is repeated, and what nobody can read."""

import hashlib
import hmac

import pytest

from molecule_core.common.errors import CapacityExceeded, InvalidField, NotFound, UnsafeUrl
from molecule_core.org.model import WorkspacesRemoved
from molecule_core.store.database import Command
from molecule_core.webhooks.model import DEFAULT_ID, WebhookState
from molecule_core.webhooks.retention import WebhookRetention
from molecule_core.webhooks.subscribers import on_workspaces_removed
from testing.waits import eventually
from tests.requirements import requirement
from tests.webhooks.webhook_world import ORG, OWNER, WORKSPACE, Process, WebhookWorld, key_of


async def until_posted(world: WebhookWorld, count: int) -> list[str]:
    """Wait for so many posts."""

    async def look() -> list[str]:
        return world.receiver.bodies

    return await eventually(look, lambda found: len(found) >= count)


async def until_state(process: Process, state: WebhookState, task_id: str = "t1") -> None:
    """Wait for the state of a webhook."""

    async def look() -> str:
        return (await process.reader.webhook(key_of(task_id))).state.value

    await eventually(look, lambda found: found == state.value)


async def until_followed(process: Process, count: int) -> None:
    """Wait until a process follows so many webhooks."""

    async def look() -> int:
        return process.dispatcher.followed_count

    await eventually(look, lambda found: found == count)


async def until_failures(process: Process, count: int) -> None:
    """Wait until so many attempts in a row have failed."""

    async def look() -> int:
        return (await process.reader.webhook(key_of("t1"))).failures

    await eventually(look, lambda found: found == count)


@requirement("HK1")
async def test_a_new_webhook_gets_the_task_as_it_is_and_then_each_change_in_order(world: WebhookWorld) -> None:
    process = world.process()
    process.start()
    world.tasks.write("t1", "submitted")
    await world.register(process)
    await until_posted(world, 1)
    for text in ("working", "artifact"):
        world.tasks.write("t1", text)
    world.tasks.write("t1", "completed", ends=True)

    bodies = await until_posted(world, 4)

    assert bodies == ['{"line":"1.0","seen":["submitted"]}', "working", "artifact", "completed"]
    await until_state(process, WebhookState.ENDED)
    await until_followed(process, 0)


@requirement("HK2")
async def test_a_post_carries_token_authorization_and_a_signature(world: WebhookWorld) -> None:
    world.secrets = ("s3cret",)
    process = world.process()
    process.start()
    await world.register(process, token="tok", scheme="Bearer", credentials="cred", line="0.3")
    await until_posted(world, 1)

    headers, body = world.receiver.posts[0]

    assert headers["Content-Type"] == "application/a2a+json"
    assert (headers["Authorization"], headers["X-A2A-Notification-Token"]) == ("Bearer cred", "tok")
    assert headers["A2A-Version"] == "0.3"
    signed = headers["X-Molecule-Timestamp"].encode() + b"." + body
    assert headers["X-Molecule-Signature"] == "v1=" + hmac.new(b"s3cret", signed, hashlib.sha256).hexdigest()


@requirement("HK3")
async def test_a_change_that_is_refused_is_repeated_later_and_keeps_its_place(world: WebhookWorld) -> None:
    process = world.process()
    process.start()
    await world.register(process)
    await until_posted(world, 1)
    world.receiver.statuses = [500, 0]
    world.tasks.write("t1", "first")
    world.tasks.write("t1", "second")
    await until_posted(world, 2)

    await until_failures(process, 1)
    assert len(world.receiver.bodies) == 2  # nothing overtakes
    await world.pass_time(13)
    await until_posted(world, 3)
    await until_failures(process, 2)
    await world.pass_time(20)
    bodies = await until_posted(world, 5)

    assert bodies[1:] == ["first", "first", "first", "second"]
    keys = [headers["Idempotency-Key"] for headers, _ in world.receiver.posts[1:]]
    assert keys[0] == keys[1] == keys[2] != keys[3]
    found = await eventually(lambda: process.reader.webhook(key_of("t1")), lambda found: found.posted == 3)
    assert (found.failures, found.last_error) == (0, None)


@requirement("HK3")
async def test_a_dead_webhook_is_given_up_and_says_why(world: WebhookWorld) -> None:
    process = world.process()
    process.start()
    world.receiver.statuses = [503, 503, 503]
    await world.register(process)
    for attempt in (1, 2):
        await until_posted(world, attempt)
        await until_failures(process, attempt)
        await world.pass_time(20)
    await until_state(process, WebhookState.FAILED)
    world.tasks.write("t1", "completed", ends=True)
    await world.pass_time(100)

    found = (await process.reader.webhooks_of_workspace(WORKSPACE, 10))[0]

    assert (found.state, found.failures) == (WebhookState.FAILED, 3)
    assert found.last_error == "it responded with status 503"
    assert len(world.receiver.posts) == 3


@requirement("HK1")
async def test_another_process_goes_on_from_the_cursor_of_one_that_was_killed(world: WebhookWorld) -> None:
    first, second = world.process("p1"), world.process("p2")
    first.start()
    second.start()
    await world.register(first)
    await until_posted(world, 1)
    world.tasks.write("t1", "one")
    await until_posted(world, 2)
    await eventually(lambda: first.reader.webhook(key_of("t1")), lambda found: found.posted == 2)
    assert second.dispatcher.followed_count == 0

    await first.kill()
    world.tasks.write("t1", "two")
    await world.pass_time(31)
    await world.pass_time(6)
    bodies = await until_posted(world, 3)

    assert bodies[1:] == ["one", "two"]


@requirement("HK1")
async def test_a_restart_keeps_the_number_of_failures_and_the_time_of_the_next_attempt(world: WebhookWorld) -> None:
    first = world.process("p1")
    first.start(exclusive=True)
    world.receiver.statuses = [500]
    await world.register(first)
    await until_posted(world, 1)
    await until_failures(first, 1)
    await first.kill()

    second = world.process("p2")
    second.start(exclusive=True)
    await world.pass_time(1)
    await eventually(lambda: second.reader.webhook(key_of("t1")), lambda found: found.holder == "p2")
    assert len(world.receiver.posts) == 1
    await world.pass_time(13)
    await until_posted(world, 2)

    found = await eventually(lambda: second.reader.webhook(key_of("t1")), lambda found: found.posted == 1)
    assert found.failures == 0


@requirement("HK1")
async def test_two_processes_never_post_for_the_same_webhook(world: WebhookWorld) -> None:
    processes = [world.process(f"p{number}") for number in range(3)]
    for each in processes:
        each.start()
    for number in range(4):
        await world.register(processes[0], f"t{number}")
    await world.pass_time(6)
    await until_posted(world, 4)
    for number in range(4):
        world.tasks.write(f"t{number}", f"end {number}", ends=True)
    bodies = await until_posted(world, 8)

    assert sorted(bodies[4:]) == [f"end {number}" for number in range(4)]


@requirement("HK1")
async def test_a_claim_whose_answer_was_lost_is_followed_nevertheless(world: WebhookWorld) -> None:
    process = world.process("p1")
    await world.register(process)
    assert await process.writer.claim(key_of("t1"), "p1") is not None
    process.start()

    assert await until_posted(world, 1) == ['{"line":"1.0","seen":[]}']


@requirement("HK2")
async def test_a_url_is_checked_when_it_is_registered_and_at_each_post(world: WebhookWorld) -> None:
    process = world.process()
    process.start()
    with pytest.raises(UnsafeUrl):
        await world.register(process, url="https://db.internal/")
    await world.register(process)
    await until_posted(world, 1)

    world.receiver.forbidden = True
    world.tasks.write("t1", "working")
    found = await eventually(lambda: process.reader.webhook(key_of("t1")), lambda found: found.failures == 1)

    assert "not public" in str(found.last_error)
    assert len(world.receiver.posts) == 1


@requirement("HK1")
async def test_replacing_a_webhook_posts_the_task_anew_to_the_new_address(world: WebhookWorld) -> None:
    process = world.process()
    process.start()
    await world.register(process, token="old")
    await until_posted(world, 1)
    await world.register(process, token="new")
    await until_posted(world, 2)
    world.tasks.write("t1", "completed", ends=True)
    await until_posted(world, 3)

    assert [headers["X-A2A-Notification-Token"] for headers, _ in world.receiver.posts] == ["old", "new", "new"]


@requirement("HK1")
async def test_a_deleted_webhook_gets_nothing_more_and_deleting_it_twice_is_no_error(world: WebhookWorld) -> None:
    process = world.process()
    process.start()
    await world.register(process)
    await until_posted(world, 1)

    for _ in range(2):
        await process.writer.delete(key_of("t1"))
    process.wakeups.notify(("webhooks",))
    await world.pass_time(6)
    world.tasks.write("t1", "completed", ends=True)
    await world.pass_time(6)

    assert len(world.receiver.posts) == 1
    with pytest.raises(NotFound):
        await process.reader.webhook(key_of("t1"))


async def test_webhooks_of_a_task_and_of_an_organisation_are_limited(world: WebhookWorld) -> None:
    process = world.process()
    for task_id in ("t1", "t2"):
        for config_id in ("a", "b"):
            await world.register(process, task_id, config_id)
    with pytest.raises(CapacityExceeded, match="one task"):
        await world.register(process, "t1", "c")
    with pytest.raises(CapacityExceeded, match="one organisation"):
        await world.register(process, "t3", "a")
    await world.register(process, "t1", "b")  # replaces

    assert [each.id for each in await process.reader.webhooks_of_task(ORG, "t1", OWNER)] == ["a", "b"]


@pytest.mark.parametrize(
    "fields",
    [
        {"scheme": "Bearer\r\nX: y", "credentials": "c"},
        {"scheme": "Bearer", "credentials": "c\r\nX: y"},
        {"token": "a\nb"},
        {"token": "x" * 5000},
        {"token": " blank"},
        {"config_id": "two words"},
        {"config_id": ""},
    ],
)
async def test_texts_that_would_not_stay_in_their_header_are_refused(
    world: WebhookWorld, fields: dict[str, str]
) -> None:
    with pytest.raises(InvalidField):
        await world.register(world.process(), **fields)


@requirement("HK2")
async def test_no_text_form_of_a_webhook_shows_its_secrets(world: WebhookWorld) -> None:
    webhook = await world.register(world.process(), token="t0ken", scheme="Basic", credentials="cr3d")

    assert DEFAULT_ID in repr(webhook)
    assert "t0ken" not in f"{webhook!r}{webhook}" and "cr3d" not in f"{webhook!r}{webhook}"


@requirement("HK2")
async def test_another_caller_finds_no_webhook_of_the_same_task(world: WebhookWorld) -> None:
    process = world.process()
    await world.register(process)

    with pytest.raises(NotFound):
        await process.reader.webhook(key_of("t1", owner="workspace:other"))
    assert await process.reader.webhooks_of_task(ORG, "t1", "workspace:other") == []
    assert await process.reader.webhooks_of_task("org-2", "t1", OWNER) == []


async def test_a_task_that_its_owner_cannot_see_any_more_ends_the_webhook(world: WebhookWorld) -> None:
    process = world.process()
    process.start()
    world.tasks.hidden.add("t1")
    await world.register(process)

    await until_state(process, WebhookState.ENDED)
    assert world.receiver.posts == []


@pytest.mark.parametrize("removed", [WORKSPACE, OWNER.removeprefix("workspace:")])
async def test_webhooks_go_with_the_workspace_of_their_task_and_with_their_owner(
    world: WebhookWorld, removed: str
) -> None:
    process = world.process()
    await world.register(process)
    event = WorkspacesRemoved((removed,), 0)

    await world.store.run(Command(ORG, (), lambda: on_workspaces_removed(ORG, event)))

    assert await process.reader.webhooks_of_task(ORG, "t1", OWNER) == []


async def test_ended_webhooks_are_deleted_when_they_are_old_and_active_ones_stay(world: WebhookWorld) -> None:
    process = world.process()
    process.start()
    world.tasks.write("t1", "completed", ends=True)
    await world.register(process, "t1")
    await world.register(process, "t2")
    await until_state(process, WebhookState.ENDED)

    policy = WebhookRetention(world.store)
    early = [batch.rows async for batch in policy.batches(world.clock.now(), 1)]
    await world.pass_time(10)
    for batch in [batch async for batch in policy.batches(world.clock.now(), 1)]:
        if batch.command is not None:
            await world.store.run(batch.command)

    assert early == [0]
    assert await process.reader.webhooks_of_task(ORG, "t1", OWNER) == []
    assert len(await process.reader.webhooks_of_task(ORG, "t2", OWNER)) == 1
