"""Whatever is handed out again, in whatever order, and wherever an agent is killed: one effect, and nothing lost."""

from hypothesis import given
from hypothesis import strategies as st

from molecule_core.demo.mind import State, react
from molecule_core.demo.model import Ack, Message, Say, Send
from tests.demo.minds import peer, reply, request, seat
from tests.rules.effort import examples

PEERS = {each.id: each for each in (peer("a"), peer("b"))}
LEAD = seat()
ASKED_BY = {"r1": None, "r2": "boss", "r3": None}


class World:
    """A server that keeps what an agent sends, once for each id, and hands out what is not acknowledged, in rounds:
    no message comes a second time before every other has come once, as leases of one length have it."""

    def __init__(self) -> None:
        self.inbox: dict[str, Message] = {}
        self.effects: dict[str, str] = {}
        self.state = State()

    def arrive(self, message: Message) -> None:
        self.inbox.setdefault(message.id, message)

    def round(self, order: list[str], killed_after: int | None) -> None:
        """Hands out what waits in an order; the agent is killed after so many actions, and starts with nothing."""
        left = killed_after
        for id_ in order:
            if id_ not in self.inbox:
                continue
            reaction = react(LEAD, self.state, self.inbox[id_], list(PEERS.values()))
            self.state = reaction.state
            for action in reaction.actions:
                if left == 0:
                    self.state = State()
                    return
                left = None if left is None else left - 1
                self.do(action)

    def do(self, action: object) -> None:
        if isinstance(action, Say):
            self.keep(action.key, action.text)
        if isinstance(action, Send):
            self.keep(action.message_id, f"{action.to}: {action.text}")
        if isinstance(action, Ack):
            self.inbox.pop(action.message.id, None)

    def keep(self, key: str, text: str) -> None:
        assert self.effects.setdefault(key, text) == text, "the same id says something else"

    def questions(self) -> list[tuple[str, str]]:
        """(request, peer) of every question that was asked."""
        return [(r, p) for r in ASKED_BY for p in PEERS if f"ask-{r}-{p}" in self.effects]


@examples(200)
@given(st.data())
def test_every_request_is_answered_once_with_all_answers(data: st.DataObject) -> None:
    world = World()
    answered: set[tuple[str, str]] = set()

    def answer(wanted: list[tuple[str, str]]) -> None:
        for request_id, peer_id in wanted:
            answered.add((request_id, peer_id))
            world.arrive(reply(request(request_id), PEERS[peer_id]))

    waiting = list(ASKED_BY)
    for _ in range(data.draw(st.integers(0, 8), label="rounds")):
        comes: bool = data.draw(st.booleans(), label="a request comes")
        if comes and waiting:
            world.arrive(request(waiting[0], sender=ASKED_BY[waiting.pop(0)]))
        open_ones = sorted(set(world.questions()) - answered)
        if open_ones:
            answer(data.draw(st.lists(st.sampled_from(open_ones), unique=True), label="answers"))
        order = data.draw(st.permutations(list(world.inbox)), label="order")
        world.round(order, data.draw(st.none() | st.integers(0, 6), label="killed after"))

    for request_id in waiting:
        world.arrive(request(request_id, sender=ASKED_BY[request_id]))
    for _ in range(4):  # asked; answered; put together; what is left over put away
        world.round(list(world.inbox), None)
        answer(sorted(set(world.questions()) - answered))

    assert world.inbox == {}
    assert world.state == State()
    assert {key for key in world.effects if key.startswith("answer-")} == {f"answer-{each}" for each in ASKED_BY}
    assert all("a says" in world.effects[f"answer-{each}"] for each in ASKED_BY)
    assert all("b says" in world.effects[f"answer-{each}"] for each in ASKED_BY)
