/** Code with coloured tokens. Loaded with the first code block of a known language; the elements are built from a tree, never
 * from HTML text, so that the strict content policy holds. */

import { createLowlight } from "lowlight";
import bash from "highlight.js/lib/languages/bash";
import css from "highlight.js/lib/languages/css";
import diff from "highlight.js/lib/languages/diff";
import go from "highlight.js/lib/languages/go";
import ini from "highlight.js/lib/languages/ini";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import python from "highlight.js/lib/languages/python";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";
import type { ReactNode } from "react";
import styles from "./HighlightedCode.module.css";

const grammars = createLowlight({ bash, css, diff, go, ini, javascript, json, python, rust, sql, typescript, xml, yaml });

/** What a scope of a grammar looks like; scopes without an entry have the colour of text. */
const LOOKS: Readonly<Record<string, string | undefined>> = {
  "hljs-keyword": styles.keyword,
  "hljs-literal": styles.keyword,
  "hljs-built_in": styles.keyword,
  "hljs-selector-tag": styles.keyword,
  "hljs-section": styles.keyword,
  "hljs-string": styles.string,
  "hljs-regexp": styles.string,
  "hljs-addition": styles.string,
  "hljs-number": styles.number,
  "hljs-symbol": styles.number,
  "hljs-comment": styles.comment,
  "hljs-quote": styles.comment,
  "hljs-meta": styles.comment,
  "hljs-title": styles.title,
  "hljs-name": styles.title,
  "hljs-type": styles.title,
  "hljs-attr": styles.attribute,
  "hljs-attribute": styles.attribute,
  "hljs-property": styles.attribute,
  "hljs-selector-class": styles.attribute,
  "hljs-selector-id": styles.attribute,
  "hljs-variable": styles.attribute,
  "hljs-deletion": styles.deletion,
};

type Node = ReturnType<typeof grammars.highlight>["children"][number];

export default function HighlightedCode({ code, language }: { code: string; language: string }) {
  return <code>{grammars.registered(language) ? grammars.highlight(language, code).children.map(element) : code}</code>;
}

function element(node: Node, key: number): ReactNode {
  if (node.type === "text") return node.value;
  if (node.type !== "element") return null;
  const names = node.properties["className"];
  const look = Array.isArray(names) ? LOOKS[String(names[0])] : undefined;
  return (
    <span key={key} className={look}>
      {node.children.map(element)}
    </span>
  );
}
