// Lays out one generated organisation with the page's own source, and tells as JSON what that cost in CPU milliseconds.
//
//     node benchmarks/layout.mjs AGENTS FURTHER
//
// The first layout is as a page makes it, by code that has not run before; so many further ones follow.

import { registerHooks } from "node:module";
import { argv, cpuUsage, stdout } from "node:process";

// The sources name each other without an ending, as their bundler wants it.
registerHooks({
  resolve: (name, context, next) => next(name.startsWith(".") && !/\.[a-z]+$/.test(name) ? `${name}.ts` : name, context),
});
const { layOut } = await import("../canvas/src/map/layout.ts");
const { buildTree } = await import("../canvas/src/core/state/tree.ts");

const LED = 6;
const [agents, further] = argv.slice(2).map(Number);

const seats = new Map(
  Array.from({ length: agents }, (_, at) => {
    const parentId = at === 0 ? null : `agent-${Math.floor((at - 1) / LED)}`;
    return [`agent-${at}`, { id: `agent-${at}`, parentId, createdAt: new Date(1_790_000_000_000 + at).toISOString() }];
  }),
);

function costOf(work) {
  const before = cpuUsage();
  const result = work();
  const { user, system } = cpuUsage(before);
  return [(user + system) / 1000, result];
}

const [treeMs, tree] = costOf(() => buildTree(seats));
const [firstMs, layout] = costOf(() => layOut(tree, new Set(), null));
const furtherMs = Array.from({ length: further }, () => costOf(() => layOut(tree, new Set(), null))[0]);
stdout.write(JSON.stringify({ cards: layout.cards.size, tree_ms: treeMs, first_ms: firstMs, further_ms: furtherMs }));
