"""Plays one machine: random operations on the product and on a model of it. What `prove state` starts, once for each.

The machines are those of the tests (tests/unit, delegations, memory, approvals, threads), with their models; here they
are played longer, from the seed of the run, and counted. The name of the folder says which.
"""

import contextlib
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from molecule_core.common.limits import Limits
from proofs.harness.children import setting_of_this_child
from proofs.harness.settings import Setting
from proofs.harness.verdicts import Verdict
from testing.engines import server_of
from testing.machines.approval_store import ladder_on
from testing.machines.approvals import LIMITS as FEW_APPROVALS
from testing.machines.approvals import ApprovalMachine
from testing.machines.delegation_store import stage_on
from testing.machines.delegations import DelegationMachine
from testing.machines.inboxes import InboxMachine, world_on
from testing.machines.memory import BATCH, MOST, KeyMachine
from testing.machines.memory_store import world_on as memory_on
from testing.machines.obligations import ObligationMachine
from testing.machines.org_trees import TreeMachine
from testing.machines.threads import TalkMachine, threads_on

# A story has so many steps; then the next one begins with workspaces of its own.
_STEPS_A_STORY = 30
_DONE = "execute:rule:"
DISAGREED, UNREACHED = "disagreements", "operations never reached"
BROKE_DOWN = "broke down"
Machine = Callable[[], RuleBasedStateMachine]


@contextlib.contextmanager
def _tree() -> Iterator[type[RuleBasedStateMachine]]:
    yield TreeMachine


def machine_of(name: str, setting: Setting) -> AbstractContextManager[Machine]:
    """What makes a machine of this name, on a world that lasts as long as the block."""
    place = (setting.engine, setting.folder, server_of(setting.database) if setting.database else "")

    @contextlib.contextmanager
    def on(world: Any, machine: Any) -> Iterator[Machine]:
        with world as opened:
            yield lambda: machine(opened)

    kinds: dict[str, Callable[[], AbstractContextManager[Machine]]] = {
        "inbox": lambda: on(world_on(*place), InboxMachine),
        "obligations": lambda: on(world_on(*place, Limits()), ObligationMachine),
        "delegations": lambda: on(stage_on(*place), DelegationMachine),
        "keys": lambda: on(memory_on(*place, Limits(memory_keys=MOST, retention_batch=BATCH)), KeyMachine),
        "tree": _tree,
        "threads": lambda: on(threads_on(*place), TalkMachine),
        "approvals": lambda: on(ladder_on(*place, FEW_APPROVALS), ApprovalMachine),
    }
    return kinds[name]()


def play(setting: Setting) -> Verdict:
    """`setting.size` steps of the machine that the folder names; stops at the first disagreement."""
    name = setting.folder.name
    steps, reached, known = 0, set[str](), set[str]()
    verdict = Verdict(zeros={DISAGREED: 0, BROKE_DOWN: 0, UNREACHED: 0})
    with machine_of(name, setting) as make:

        def counted() -> RuleBasedStateMachine:
            machine = make()
            check = machine.check_invariants
            known.update(rule.function.__name__ for rule in machine._rules_strategy.rules)

            def count(choices: Any, output: Any, times: dict[str, float]) -> None:
                nonlocal steps
                steps += 1
                reached.update(
                    label.removeprefix("execute:rule:") for label in times if label.startswith("execute:rule")
                )
                check(choices, output, times)

            machine.check_invariants = count  # type: ignore[assignment, method-assign]
            return machine

        counted._hypothesis_internal_use_seed = setting.seed  # type: ignore[attr-defined]
        wish = settings(
            max_examples=max(1, setting.size // _STEPS_A_STORY),
            stateful_step_count=_STEPS_A_STORY,
            deadline=None,
            database=None,
            phases=(Phase.generate,),
            suppress_health_check=list(HealthCheck),
        )
        try:
            run_state_machine_as_test(counted, settings=wish)  # type: ignore[arg-type]
        except Exception as error:  # the machines say by an assertion that the product did not do what the model does
            verdict.zeros[DISAGREED if isinstance(error, AssertionError) else BROKE_DOWN] = 1
            where = "".join(traceback.format_tb(error.__traceback__)[-2:])
            verdict.notes.append(f"{name}: {error!r} {where}"[:1_200])
    verdict.figures = {f"steps of {name}": steps, f"operations of {name}": len(reached & known)}
    verdict.zeros[UNREACHED] = len(known - reached)
    verdict.notes += [f"{name} never did {each}" for each in sorted(known - reached)]
    return verdict


if __name__ == "__main__":
    given = setting_of_this_child()
    Path(given.folder).mkdir(exist_ok=True)
    with contextlib.redirect_stdout(sys.stderr):  # what Hypothesis tells of a failure is no verdict
        found = play(given)
    print(msgspec.json.encode(found).decode())
