/** List the texts of the page in its sources: what people read, and what screen readers say. */

import { parseSync } from "vite";

export interface PageText {
  /** 1-based. */
  line: number;
  text: string;
}

interface Node {
  type: string;
  start: number;
  end: number;
  [member: string]: unknown;
}

/** Code whose strings are not shown: imports, types, and attributes with names, shapes or keys. */
const CODE = /^(?:Import|ExportAll|TSType|TSInterface|TSEnum|TSLiteral|TSUnion|TSIndexed)/;
const CODE_ATTRIBUTES = new Set(["className", "d", "viewBox", "transform", "key", "href", "id", "type", "role", "htmlFor", "icon", "kind", "name"]);

/** Texts of a source file, in order. The inserted values of a template are shown as `…`. */
export function pageTexts(file: string, source: string): PageText[] {
  const { program, errors } = parseSync(file, source);
  if (errors.length > 0) throw new Error(`${file} does not parse: ${errors[0]?.message}`);
  const found: PageText[] = [];
  const add = ({ start, type }: Node, words: string): void => {
    const text = words.replace(/\s+/g, " ").trim();
    if (type === "JSXText" ? /[A-Za-z]/.test(text) : isProse(text)) found.push({ line: source.slice(0, start).split("\n").length, text });
  };
  const visit = (node: unknown): void => {
    if (Array.isArray(node)) return node.forEach(visit);
    if (!isNode(node) || CODE.test(node.type) || isCodeAttribute(node)) return;
    if (node.type === "JSXText" || (node.type === "Literal" && typeof node["value"] === "string")) return add(node, String(node["value"]));
    if (node.type === "TemplateLiteral") add(node, (node["quasis"] as { value: { cooked: string } }[]).map(({ value }) => value.cooked).join("…"));
    for (const [name, value] of Object.entries(node)) if (name !== "quasis") visit(value);
  };
  visit(program.body);
  return found;
}

function isNode(value: unknown): value is Node {
  return typeof value === "object" && value !== null && typeof (value as Node).type === "string";
}

function isCodeAttribute(node: Node): boolean {
  return node.type === "JSXAttribute" && CODE_ATTRIBUTES.has((node["name"] as { name: string }).name) && (node["value"] as Node | null)?.type === "Literal";
}

/** Two words, or one with a capital. Paths, selectors and identifiers are no prose. */
function isProse(text: string): boolean {
  if (/^[\w.:/?&=#…-]*$/.test(text)) return /^[A-Z][a-z]/.test(text);
  return /[A-Za-z]{2}/.test(text) && !/^(?:[/[.#(]|…?[\w-]+=|M[\d.])/.test(text);
}
