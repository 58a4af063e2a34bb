/** Render a message as Markdown. Nothing in it can run, be fetched or mislead: HTML is shown as text, images are links,
 * addresses of other schemes are text, and a link whose text names another host shows where it leads. */

import { Children, isValidElement, type ComponentProps, type ReactNode } from "react";
import ReactMarkdown, { type Components, type ExtraProps } from "react-markdown";
import remarkGfm from "remark-gfm";
import { CopyButton } from "./CopyButton";
import { destination, isMisleading, safeAddress } from "./links";
import css from "./MessageText.module.css";

const PLUGINS = [remarkGfm];

/** Shown instead of an image, which is never fetched: that would reveal the reader to its owner. */
function Picture({ src, alt }: ComponentProps<"img"> & ExtraProps) {
  const url = typeof src === "string" ? safeAddress(src) : null;
  const words = alt ? `picture “${alt}”` : "picture";
  if (url === null) return <span className={css.picture}>[{words}]</span>;
  return (
    <Outward url={url}>
      {words} on {destination(url)}
    </Outward>
  );
}

function Anchor({ href, children }: ComponentProps<"a"> & ExtraProps) {
  const url = href === undefined ? null : safeAddress(href);
  if (url === null) return <span>{children}</span>;
  const lying = isMisleading(textOf(children), url);
  return (
    <>
      <Outward url={url}>{children}</Outward>
      {lying && <span className={css.host}> (leads to {destination(url)})</span>}
    </>
  );
}

function Outward({ url, children }: { url: URL; children: ReactNode }) {
  return (
    <a href={url.href} target="_blank" rel="noopener noreferrer" title={url.href}>
      {children}
    </a>
  );
}

function Block({ children }: ComponentProps<"pre"> & ExtraProps) {
  const code = textOf(children).replace(/\n$/, "");
  return (
    <div className={css.block}>
      <pre tabIndex={0} role="region" aria-label="Code">
        {children}
      </pre>
      <CopyButton text={code} label="Copy code" />
    </div>
  );
}

function Table({ children }: ComponentProps<"table"> & ExtraProps) {
  return (
    <div className={css.table} tabIndex={0} role="region" aria-label="Table">
      <table>{children}</table>
    </div>
  );
}

/** Headings of a message are not headings of the page. */
function Heading({ children }: { children?: ReactNode }) {
  return <p className={css.heading}>{children}</p>;
}

function Title({ children }: { children?: ReactNode }) {
  return <p className={`${css.heading} ${css.title}`}>{children}</p>;
}

function TaskBox({ checked }: ComponentProps<"input"> & ExtraProps) {
  return <span className={css.task}>{checked ? "[x]" : "[ ]"}</span>;
}

const COMPONENTS: Components = {
  a: Anchor,
  img: Picture,
  pre: Block,
  table: Table,
  input: TaskBox,
  h1: Title,
  h2: Title,
  h3: Heading,
  h4: Heading,
  h5: Heading,
  h6: Heading,
  section: ({ children }) => <div>{children}</div>,
};

function textOf(node: ReactNode): string {
  if (typeof node === "string" || typeof node === "number") return String(node);
  if (isValidElement<{ children?: ReactNode }>(node)) return textOf(node.props.children);
  return Array.isArray(node) ? Children.toArray(node).map(textOf).join("") : "";
}

export default function Markdown({ text }: { text: string }) {
  return (
    <ReactMarkdown remarkPlugins={PLUGINS} components={COMPONENTS} urlTransform={(address) => (safeAddress(address) ? address : "")}>
      {text}
    </ReactMarkdown>
  );
}
