"""No import circle: one finding for each set of modules that all reach each other.

Above: test_circles. Below: importing, trees.
"""

from collections import deque

from tests.shape.guards.importing import imports, loaded_with
from tests.shape.guards.trees import Tree, read

Graph = dict[str, set[str]]


def find_circles(tree: Tree) -> list[str]:
    """Circles over all imports, those in functions and for types included: hiding one does not open it."""
    graph = _graph(tree)
    reach = {name: _reachable(graph, name) for name in graph}
    found, told = [], set[str]()
    for name in sorted(graph):
        if name in reach[name] and name not in told:
            told |= {other for other in reach[name] if name in reach[other]}
            found.append(f"{tree.folder}: import circle {' -> '.join(_shortest_circle(graph, name))}")
    return found


def _graph(tree: Tree) -> Graph:
    modules = read(tree)
    graph: Graph = {module.name: set() for module in modules}
    for module, one in imports(tree, modules):
        if one.own:
            graph[module.name] |= loaded_with(module, one.target, graph.keys())
    return graph


def _reachable(graph: Graph, start: str) -> set[str]:
    seen = set[str]()
    waiting = list(graph[start])
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += graph[name]
    return seen


def _shortest_circle(graph: Graph, start: str) -> list[str]:
    """The way from a module back to itself that visits the fewest others; there must be one."""
    came_from = dict.fromkeys(sorted(graph[start]), start)
    queue = deque(came_from)
    while start not in came_from:
        name = queue.popleft()
        fresh = {after: name for after in sorted(graph[name]) if after not in came_from}
        came_from |= fresh
        queue += fresh
    way = [start, came_from[start]]
    while way[-1] != start:
        way.append(came_from[way[-1]])
    return way[::-1]
