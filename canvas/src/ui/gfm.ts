/** GitHub's Markdown: tables, task lists, strikethrough, footnotes, links without brackets. A plugin of remark.
 *
 * As remark-gfm, without what writes Markdown: the page only reads it. A single `~` is text: it means "about" and separates
 * the ends of a range. */

import { gfmFromMarkdown } from "mdast-util-gfm";
import { gfm as gfmSyntax } from "micromark-extension-gfm";

interface Extensions {
  micromarkExtensions?: unknown[];
  fromMarkdownExtensions?: unknown[];
}

export const STRIKETHROUGH = { singleTilde: false };

export function gfm(this: unknown): void {
  const data = (this as { data: () => Extensions }).data();
  (data.micromarkExtensions ??= []).push(gfmSyntax(STRIKETHROUGH));
  (data.fromMarkdownExtensions ??= []).push(gfmFromMarkdown());
}
