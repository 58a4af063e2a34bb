/** The text of a message. Most need no formatting; the Markdown renderer is loaded on first use. */

import { lazy, memo, Suspense } from "react";
import { withoutTerminalCodes } from "../core/text/terminal";
import { ErrorBoundary } from "./ErrorBoundary";
import { retrying } from "./lazyPart";
import css from "./MessageText.module.css";

const Markdown = lazy(retrying(() => import("./Markdown")));

export const MessageText = memo(function MessageText({ text }: { text: string }) {
  const words = withoutTerminalCodes(text);
  const plain = <p dir="auto">{words}</p>;
  return (
    <div className={css.text} data-text>
      {isPlain(words) ? (
        plain
      ) : (
        <ErrorBoundary fallback={plain}>
          <Suspense fallback={plain}>
            <Markdown text={words} />
          </Suspense>
        </ErrorBoundary>
      )}
    </div>
  );
});

/** Whether the text contains nothing that Markdown would change. */
function isPlain(text: string): boolean {
  return /^[\p{L}\p{N}][\p{L}\p{N} ,;?'"“”‘’%€]*(?:[.!:][\p{L}\p{N} ,;?'"“”‘’%€]*)*$/u.test(text) && !/^\d+[.)]|www\.|\s$|\p{L}[.:]\p{L}/iu.test(text);
}
