"""No import circle: between modules, and between the sub-packages of one package.

There is one finding for each set of modules that all reach each other.
"""

from collections import deque

from tests.architecture.guards.import_statements import imports, loaded_with
from tests.architecture.guards.trees import Tree, read
from tests.architecture.layers import Pair

Graph = dict[str, set[str]]


def find_circles(tree: Tree) -> list[str]:
    """Find circles over all imports, those in functions and for types included: hiding one does not open it."""
    return [f"{tree.folder}: import circle {' -> '.join(circle)}" for circle in _circles(import_graph(tree))]


def find_package_circles(tree: Tree) -> list[str]:
    """Find circles between the sub-packages of each package."""
    modules = read(tree)
    packages = {module.name for module in modules if module.is_package and module.name}
    graphs = {name.rpartition(".")[0]: Graph() for name in packages}
    for module, one in imports(tree, modules):
        if one.own and (siblings := _siblings(module.name, one.target, packages)):
            importer, imported = siblings
            graph = graphs[importer.rpartition(".")[0]]
            graph.setdefault(importer, set()).add(imported)
            graph.setdefault(imported, set())
    circles = [circle for parent in sorted(graphs) for circle in _circles(graphs[parent])]
    return [f"{tree.folder}: circle of packages {' -> '.join(circle)}" for circle in circles]


def _siblings(importer: str, imported: str, packages: set[str]) -> Pair | None:
    """Return the two packages with one parent that the import connects, or None if there are none."""
    for mine, theirs in zip(_prefixes(importer), _prefixes(imported), strict=False):
        if mine != theirs:
            return (mine, theirs) if mine in packages and theirs in packages else None
    return None


def _prefixes(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts) + 1)]


def import_graph(tree: Tree) -> Graph:
    """Return the modules that each module imports."""
    modules = read(tree)
    graph: Graph = {module.name: set() for module in modules}
    for module, one in imports(tree, modules):
        if one.own:
            graph[module.name] |= loaded_with(module, one.target, graph.keys())
    return graph


def reachable(graph: Graph, start: str) -> set[str]:
    """Return every module that `start` imports, directly or through others."""
    seen = set[str]()
    pending = list(graph[start])
    while pending:
        name = pending.pop()
        if name not in seen:
            seen.add(name)
            pending += graph[name]
    return seen


def _circles(graph: Graph) -> list[list[str]]:
    reach = {name: reachable(graph, name) for name in graph}
    found, done = [], set[str]()
    for name in sorted(graph):
        if name in reach[name] and name not in done:
            done |= {other for other in reach[name] if name in reach[other]}
            found.append(_shortest_circle(graph, name))
    return found


def _shortest_circle(graph: Graph, start: str) -> list[str]:
    """Return the path from a module back to itself that visits the fewest others; there must be one."""
    came_from = dict.fromkeys(sorted(graph[start]), start)
    queue = deque(came_from)
    while start not in came_from:
        name = queue.popleft()
        fresh = {after: name for after in sorted(graph[name]) if after not in came_from}
        came_from |= fresh
        queue += fresh
    path = [start, came_from[start]]
    while path[-1] != start:
        path.append(came_from[path[-1]])
    return path[::-1]
