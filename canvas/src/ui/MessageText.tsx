/** The text of a message. Most need no formatting; the Markdown renderer is loaded on first use. */

import { lazy, memo, Suspense } from "react";
import { ErrorBoundary } from "./ErrorBoundary";
import css from "./MessageText.module.css";

const Markdown = lazy(() => import("./Markdown"));

export const MessageText = memo(function MessageText({ text }: { text: string }) {
  const plain = <p>{text}</p>;
  return (
    <div className={css.text} dir="auto">
      {isPlain(text) ? (
        plain
      ) : (
        <ErrorBoundary fallback={plain}>
          <Suspense fallback={plain}>
            <Markdown text={text} />
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
