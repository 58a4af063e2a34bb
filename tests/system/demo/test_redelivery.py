"""Whatever is handed out again, in whatever order, and wherever an agent is killed: one effect, and nothing lost."""

from hypothesis import given
from hypothesis import strategies as st

from molecule_core.demo.decisions import AgentMemory, Reaction, decide, on_delegated
from molecule_core.demo.model import AckAction, Action, AnswerAction, DelegateAction, DemoMessage, SayAction
from testing.step_counts import examples
from tests.system.demo.demo_messages import TEXT, peer, request, seat

PEERS = {each.id: each for each in (peer("a"), peer("b"))}
LEAD = seat()
# Who asks, and what: two ask for the same, so that one delegation serves both.
ASKED = {"r1": (None, TEXT), "r2": ("boss", TEXT), "r3": (None, "Something else")}


class World:
    """A server that keeps what an agent sends, once for each key, begins the same work once at a time, and hands out
    what is not acknowledged, in rounds: no message comes a second time before every other has come once, as leases of
    one length have it."""

    def __init__(self) -> None:
        self.inbox: dict[str, DemoMessage] = {}
        self.effects: dict[str, str] = {}
        self.keys: dict[str, str] = {}
        self.under_way: dict[str, tuple[str, str]] = {}
        self.begun = 0
        self.state = AgentMemory()
        self.left: int | None = None

    def arrive(self, message: DemoMessage) -> None:
        self.inbox.setdefault(message.id, message)

    def settle(self, delegation_id: str, failed: bool) -> None:
        """Work ends; what failed may be begun anew under its key."""
        to, _ = self.under_way.pop(delegation_id)
        self.arrive(
            DemoMessage(
                id=f"of-{delegation_id}",
                attempt=1,
                text=f"{to} failed" if failed else f"{to} says",
                sender=to,
                delegation_id=delegation_id,
                is_result=True,
                is_failed=failed,
                wants_answer=False,
            )
        )
        if failed:
            self.keys = {key: of for key, of in self.keys.items() if of != delegation_id}

    def round(self, order: list[str], killed_after: int | None) -> None:
        """Hands out what waits in an order; the agent is killed after so many actions, and starts with nothing."""
        self.left = killed_after
        for id_ in order:
            if id_ in self.inbox and not self.perform(decide(LEAD, self.state, self.inbox[id_], list(PEERS.values()))):
                self.state = AgentMemory()
                return

    def perform(self, reaction: Reaction) -> bool:
        """Does what the agent does; False: it is killed meanwhile."""
        self.state = reaction.state
        for action in reaction.actions:
            if self.left == 0:
                return False
            self.left = None if self.left is None else self.left - 1
            if isinstance(action, DelegateAction):
                if not self.perform(on_delegated(LEAD, self.state, action, self.delegation(action))):
                    return False
            else:
                self.do(action)
        return True

    def do(self, action: Action) -> None:
        if isinstance(action, SayAction):
            self.keep(action.key, action.text)
        if isinstance(action, AnswerAction):
            self.keep(f"answer-{action.message.id}", action.text)
            self.inbox.pop(action.message.id, None)
        if isinstance(action, AckAction):
            self.inbox.pop(action.message.id, None)

    def delegation(self, action: DelegateAction) -> str:
        """The same key is one delegation, and so is the same work to the same peer while it is under way."""
        if action.key in self.keys:
            return self.keys[action.key]
        twins = [each for each, of in self.under_way.items() if of == (action.to, action.text)]
        if twins:
            return twins[0]
        self.begun += 1
        self.keys[action.key] = delegation_id = f"d{self.begun}"
        self.under_way[delegation_id] = (action.to, action.text)
        return delegation_id

    def keep(self, key: str, text: str) -> None:
        """The first word under a key counts; another one than that would be refused."""
        first = self.effects.setdefault(key, text)
        assert first == text or "failed" in first + text, "the same key says something else"


@examples(200)
@given(st.data())
def test_every_request_is_answered_once_with_what_became_of_all(data: st.DataObject) -> None:
    world = World()
    failing = st.booleans() if data.draw(st.booleans(), label="some fail") else st.just(False)

    def settle(wanted: list[str]) -> None:
        for delegation_id in wanted:
            world.settle(delegation_id, data.draw(failing, label="fails"))

    waiting = list(ASKED)
    for _ in range(data.draw(st.integers(0, 8), label="rounds")):
        comes: bool = data.draw(st.booleans(), label="a request comes")
        if comes and waiting:
            world.arrive(asked(waiting.pop(0)))
        if world.under_way:
            settle(data.draw(st.lists(st.sampled_from(sorted(world.under_way)), unique=True), label="results"))
        order = data.draw(st.permutations(list(world.inbox)), label="order")
        world.round(order, data.draw(st.none() | st.integers(0, 6), label="killed after"))

    for request_id in waiting:
        world.arrive(asked(request_id))
    for _ in range(5):  # given; answered; put together; what is left over kept once, and put away
        world.round(list(world.inbox), None)
        settle(sorted(world.under_way))

    assert world.inbox == {}
    assert world.state == AgentMemory()
    assert {key for key in world.effects if key.startswith("answer-")} == {f"answer-{each}" for each in ASKED}
    for request_id in ASKED:
        answer = world.effects[f"answer-{request_id}"]
        assert all(f"{each} says" in answer or f"{each} failed" in answer for each in PEERS)


def asked(request_id: str) -> DemoMessage:
    """One of the requests."""
    sender, text = ASKED[request_id]
    return request(request_id, sender=sender, text=text)
