/** Give each block of a message its own direction, by its first letter; code is always left to right. A plugin of rehype. */

interface HastNode {
  type: string;
  tagName?: string;
  properties?: Record<string, unknown>;
  children?: HastNode[];
}

export function directions(): (root: HastNode) => void {
  return (root) => {
    for (const block of root.children ?? []) setDirection(block, "auto");
    markCode(root);
  };
}

function markCode(node: HastNode): void {
  if (node.tagName === "pre" || node.tagName === "code") setDirection(node, "ltr");
  for (const child of node.children ?? []) markCode(child);
}

function setDirection(node: HastNode, dir: "auto" | "ltr"): void {
  if (node.type === "element") node.properties = { ...node.properties, dir };
}
