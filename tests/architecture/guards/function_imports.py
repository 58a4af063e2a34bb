"""No import of our own inside a function: the import graph is what stands at the top of the files."""

from tests.architecture.guards.import_statements import imports
from tests.architecture.guards.trees import Tree, read
from tests.architecture.layers import Pair, matches

# (importer, imported): what may be imported lazily. Commands, so that `molecule --help` is quick; the chosen engine.
LAZY_IMPORTS: tuple[Pair, ...] = (
    ("cli", "cli"),
    ("cli", "store.postgres"),  # its driver is an optional extra
    ("entry", "cli"),
    ("entry", "agent.main"),
    ("entry", "client.host_hook"),
    ("agent.main", "agent.host.runtime"),  # the host is answered before the runtime is loaded
    ("server.process", "store.{postgres,nats}"),
)


def find_function_imports(tree: Tree, lazy: tuple[Pair, ...] = LAZY_IMPORTS) -> list[str]:
    """Find own modules that are imported inside functions without permission."""
    return [
        f"{module.shown}:{one.line} {module.name} imports {one.target} inside a function"
        for module, one in imports(tree, read(tree))
        if one.own and one.in_function
        if not any(matches(module.dotted, importer) and matches(one.target, imported) for importer, imported in lazy)
    ]
