"""A row of the inbox as an agent's tools give it, as far as it is about a delegated task."""

from typing import Any

import pytest

from molecule_core.agent.message_format import message_fields
from molecule_core.wire.schemas.inbox import InboxMessage, message_from_row
from tests.requirements import requirement


def read(kind: str, metadata: Any) -> InboxMessage:
    """The message of a row of a kind, with what was said beside its words."""
    message = {"role": "agent", "parts": [{"kind": "text", "text": "Make tea"}], "metadata": metadata}
    return message_from_row({"id": "a-1", "kind": kind, "request_body": {"params": {"message": message}}})


@requirement("D6")
@pytest.mark.parametrize("kind", ["delegation", "delegation_result"])
def test_a_task_and_its_result_say_which_task_it_is(kind: str) -> None:
    message = read(kind, {"delegation_id": "d-1"})
    assert (message.delegation_id, message.text) == ("d-1", "Make tea")
    assert message_fields(message)["delegation_id"] == "d-1"


@requirement("D6", "D17")
@pytest.mark.parametrize("kind", ["peer_agent", "canvas_user", "system", ""])
def test_what_a_sender_writes_beside_a_plain_message_makes_it_no_task(kind: str) -> None:
    message = read(kind, {"delegation_id": "d-1"})
    assert message.delegation_id == ""
    assert "delegation_id" not in message_fields(message)


@pytest.mark.parametrize("metadata", [None, [], "d-1", {}, {"delegation_id": 7}, {"delegation_id": {"a": 1}}])
def test_whatever_stands_there_a_message_is_read(metadata: Any) -> None:
    assert read("delegation", metadata).delegation_id == ""
