"""The product with marked statements changed: the negative controls of tests run in the same harness as the tests."""

import inspect
from types import ModuleType

from proofs.harness.mutations import Mutation, Remove, Swap, mutated_text

WITHOUT_LOCK = Mutation(marker="org-lock", change=Swap("pg_advisory_xact_lock(n)", "n"))
WITHOUT_EVENT = Mutation(marker="workspace-event", change=Swap("$.append(", "str("))
REGISTERED_LATE = (
    Mutation(marker="bell-before-look", change=Remove()),
    Mutation(
        marker="look-after-bell", change=Swap("$looked = $look...", "$looked = $look; self._register(keys, waiter)")
    ),
)
EARLY_RING_FORGOTTEN = Mutation(marker="early-ring", change=Remove())
MUTATIONS = (WITHOUT_LOCK, WITHOUT_EVENT, *REGISTERED_LATE, EARLY_RING_FORGOTTEN)


def changed(module: ModuleType, *mutations: Mutation) -> ModuleType:
    """Load a module of the product anew with mutations in it, all of which must be marked in this module."""
    source = inspect.getsource(module)
    for mutation in mutations:
        source = mutated_text(source, mutation)
    copy = ModuleType(module.__name__)
    copy.__dict__["__file__"] = module.__file__
    exec(compile(source, f"<{module.__name__}, changed>", "exec"), copy.__dict__)  # noqa: S102 (our own source)
    return copy
