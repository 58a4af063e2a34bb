// @vitest-environment node
/// <reference types="node" />
/** Check the layout of the sources: allowed imports between layers, and no cycles. Type imports count too: in a cycle of
 * types no module can be understood alone. */

import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { expect, test } from "vitest";

type Graph = ReadonlyMap<string, readonly string[]>;

const ROOT = "src";
const IMPORT = /(?:\bfrom|\bimport)\s*\(?\s*"(\.[^"]*)"/g;

/** What a layer may import besides itself. Features may import each other, without cycles. */
const LAYERS: Readonly<Record<string, readonly string[]>> = {
  core: [],
  ui: ["core"],
  map: ["core", "ui"],
  features: ["core", "ui", "map", "features"],
  "main.tsx": ["core", "ui", "features"],
};

const layerOf = (file: string): string => file.split("/")[0] ?? "";
const featureOf = (file: string): string => file.split("/")[1] ?? "";
/** Tests and their tools may import every layer; only tests import them. */
const isTest = (file: string): boolean => /\.test\.tsx?$/.test(file) || file.startsWith("core/testing/");

function readImports(): Graph {
  const files = globSync("**/*.{ts,tsx}", { cwd: ROOT }).map((file) => file.replaceAll("\\", "/"));
  return new Map(files.map((file) => [file, [...readFileSync(join(ROOT, file), "utf8").matchAll(IMPORT)].map((found) => resolve(file, found[1] ?? ""))]));
}

function resolve(file: string, name: string): string {
  const base = normalize(join(dirname(file), name)).replaceAll("\\", "/");
  const found = [base, `${base}.ts`, `${base}.tsx`, `${base}/index.ts`].find((each) => /\.[a-z]+$/.test(each) && existsSync(join(ROOT, each)));
  if (found === undefined) throw new Error(`${file} imports ${name}, which is no file`);
  return found;
}

/** Imports that the table does not allow. */
function forbidden(graph: Graph): string[] {
  const wrong = [...graph].filter(([file]) => !isTest(file)).flatMap(([file, imported]) => {
    const allowed = [layerOf(file), ...(LAYERS[layerOf(file)] ?? [])];
    return imported.filter((each) => isTest(each) || !allowed.includes(layerOf(each))).map((each) => `${file} -> ${each}`);
  });
  return wrong.sort();
}

/** For each feature the features that it imports. */
function featureGraph(graph: Graph): Graph {
  const found = new Map<string, Set<string>>();
  for (const [file, imported] of graph) {
    if (isTest(file) || layerOf(file) !== "features") continue;
    const own = found.get(featureOf(file)) ?? new Set();
    for (const each of imported) if (layerOf(each) === "features" && featureOf(each) !== featureOf(file)) own.add(featureOf(each));
    found.set(featureOf(file), own);
  }
  return new Map([...found].map(([name, others]) => [name, [...others]]));
}

/** The first cycle found by a depth-first search; null: none. */
function cycleIn(graph: Graph): string[] | null {
  const done = new Set<string>();
  const path: string[] = [];
  const visit = (node: string): string[] | null => {
    if (path.includes(node)) return [...path.slice(path.indexOf(node)), node];
    if (done.has(node)) return null;
    path.push(node);
    for (const next of graph.get(node) ?? []) {
      const cycle = visit(next);
      if (cycle !== null) return cycle;
    }
    path.pop();
    done.add(node);
    return null;
  };
  for (const node of graph.keys()) {
    const cycle = visit(node);
    if (cycle !== null) return cycle;
  }
  return null;
}

const graph = readImports();

test("every file belongs to a layer", () => {
  const layers = new Set([...graph.keys()].filter((file) => !isTest(file)).map(layerOf));
  expect([...layers].sort()).toEqual(Object.keys(LAYERS).sort());
});

test("core and ui know no feature, and the map knows only them", () => {
  expect(forbidden(graph)).toEqual([]);
});

test("features import each other without cycles", () => {
  expect(cycleIn(featureGraph(graph))).toBeNull();
});

test("modules import each other without cycles", () => {
  expect(cycleIn(graph)).toBeNull();
});

test("the checks find an import upward, and cycles of modules and of features", () => {
  const upward: Graph = new Map([["ui/Badge.tsx", ["features/chat/chatSections.ts", "core/router.ts"]]]);
  expect(forbidden(upward)).toEqual(["ui/Badge.tsx -> features/chat/chatSections.ts"]);
  expect(forbidden(new Map([["core/app.ts", ["core/testing/workbench.tsx"]]]))).toHaveLength(1);
  expect(cycleIn(new Map([["a", ["b"]], ["b", ["c"]], ["c", ["b"]]]))).toEqual(["b", "c", "b"]);
  const crossing: Graph = new Map([["features/a/one.ts", ["features/b/two.ts"]], ["features/b/three.ts", ["features/a/four.ts"]]]);
  expect(cycleIn(crossing)).toBeNull();
  expect(cycleIn(featureGraph(crossing))).toEqual(["a", "b", "a"]);
});
