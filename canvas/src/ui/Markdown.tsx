/** Render a message as Markdown. Nothing in it can run, be fetched or mislead: HTML is shown as text, images are links,
 * addresses of other schemes are text, and a link whose text names another host shows where it leads. */

import { Children, isValidElement, lazy, Suspense, type ComponentProps, type ReactNode } from "react";
import ReactMarkdown, { type Components, type ExtraProps } from "react-markdown";
import cjkEmphasis from "remark-cjk-friendly/parseOnly";
import cjkStrikethrough from "remark-cjk-friendly-gfm-strikethrough/parseOnly";
import { bareLinks } from "./bareLinks";
import { CopyButton } from "./CopyButton";
import { retrying } from "./lazyPart";
import { directions } from "./directions";
import { ErrorBoundary } from "./ErrorBoundary";
import { gfm, STRIKETHROUGH } from "./gfm";
import { destination, isMisleading, safeAddress } from "./links";
import css from "./MessageText.module.css";

const PLUGINS: ComponentProps<typeof ReactMarkdown>["remarkPlugins"] = [gfm, cjkEmphasis, [cjkStrikethrough, STRIKETHROUGH], bareLinks];
const REHYPE_PLUGINS = [directions];

/** Shown instead of an image, which is never fetched: that would reveal the reader to its owner. */
function Picture({ src, alt }: ComponentProps<"img"> & ExtraProps) {
  const url = typeof src === "string" ? safeAddress(src) : null;
  const words = alt ? `image “${alt}”` : "image";
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

const HighlightedCode = lazy(retrying(() => import("./HighlightedCode")));
/** Longer code is not coloured: that could block the page. */
const MAX_COLOURED = 20_000;

/** The copy button is above the code, never on it. */
function Block({ children }: ComponentProps<"pre"> & ExtraProps) {
  const code = textOf(children).replace(/\n$/, "");
  const language = languageOf(children);
  return (
    <div className={css.block}>
      <div className={css.codeHead} data-language={language ?? "Code"}>
        <CopyButton text={code} label="Copy code" />
      </div>
      <pre dir="ltr" tabIndex={0} role="group" aria-label="Code">
        {language === null || code.length > MAX_COLOURED ? (
          children
        ) : (
          <ErrorBoundary fallback={children}>
            <Suspense fallback={children}>
              <HighlightedCode code={`${code}\n`} language={language} />
            </Suspense>
          </ErrorBoundary>
        )}
      </pre>
    </div>
  );
}

/** The language that a block names. */
function languageOf(children: ReactNode): string | null {
  const code = Children.toArray(children).find((each) => isValidElement<{ className?: string }>(each));
  return isValidElement<{ className?: string }>(code) ? (/\blanguage-([\w+#.-]{1,20})/.exec(code.props.className ?? "")?.[1]?.toLowerCase() ?? null) : null;
}

function Table({ children, dir }: ComponentProps<"table"> & ExtraProps) {
  return (
    <div className={css.table} tabIndex={0} role="group" aria-label="Table">
      <table dir={dir}>{children}</table>
    </div>
  );
}

/** Headings of a message are not headings of the page. */
function Heading({ children, dir }: ComponentProps<"h3"> & ExtraProps) {
  return (
    <p className={css.heading} dir={dir}>
      {children}
    </p>
  );
}

function Title({ children, dir }: ComponentProps<"h1"> & ExtraProps) {
  return (
    <p className={`${css.heading} ${css.title}`} dir={dir}>
      {children}
    </p>
  );
}

/** A task of a list. A person cannot tick it: the list is the agent's. */
function TaskBox({ checked }: ComponentProps<"input"> & ExtraProps) {
  return (
    <svg className={css.task} viewBox="0 0 16 16" role="img" aria-label={checked ? "Done:" : "To do:"} data-checked={checked || undefined}>
      <rect x="1.75" y="1.75" width="12.5" height="12.5" rx="3" />
      {checked && <path d="M4.5 8.5l2.5 2.5 4.5-5.5" />}
    </svg>
  );
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
  section: ({ children, dir }) => <div dir={dir}>{children}</div>,
};

function textOf(node: ReactNode): string {
  if (typeof node === "string" || typeof node === "number") return String(node);
  if (isValidElement<{ children?: ReactNode }>(node)) return textOf(node.props.children);
  return Array.isArray(node) ? Children.toArray(node).map(textOf).join("") : "";
}

export default function Markdown({ text }: { text: string }) {
  return (
    <ReactMarkdown remarkPlugins={PLUGINS} rehypePlugins={REHYPE_PLUGINS} components={COMPONENTS} urlTransform={(address) => (safeAddress(address) ? address : "")}>
      {text}
    </ReactMarkdown>
  );
}
