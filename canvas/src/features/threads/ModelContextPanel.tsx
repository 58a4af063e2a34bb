/** The model context of a thread, in order and in full: the source and the size of each part. */

import { useSession } from "../../core/app";
import { useRequest } from "../../core/api/useRequest";
import { Button } from "../../ui/Button";
import { Notice } from "../../ui/Notice";
import { showInvisible } from "../../core/text/invisible";
import { plural } from "../../core/text/strings";
import type { ModelContext, ModelContextItem, ThreadItem } from "../../core/wire";
import css from "./Threads.module.css";
import { pathOf } from "./useThreads";
import { useOneAtATime } from "./useOneAtATime";
import { roleText } from "./texts";

/** This much of a long text is shown before it is expanded. */
const SHORT = 600;

export function ModelContextPanel({ thread }: { thread: ThreadItem }) {
  const { api } = useSession();
  const read = useOneAtATime(() => api.request<ModelContext>("GET", pathOf(thread.thread_id, "/sight")));
  const { value, problem, reread } = useRequest(read, `${thread.thread_id} ${thread.last_ordinal}`);
  if (value === null) {
    if (problem === null) return <Notice icon="clock" title="Loading model context…" />;
    return (
      <Notice icon="warning" title="Could not load model context" actions={<Button onClick={() => void reread()}>Try again</Button>}>
        {problem}
      </Notice>
    );
  }
  return (
    <section className={css.tree} aria-label="Model context">
      <p>
        The model receives exactly {plural(value.items.length, "item")} in this order, about {plural(value.tokens, "token")}, as of entry {value.last_ordinal}.
      </p>
      {problem !== null && (
        <p role="alert" className={css.problem}>
          {problem}
        </p>
      )}
      <ol className={css.sight}>
        {value.items.map((item, at) => (
          <ContextRow key={item.item_id} item={item} number={at + 1} sha={item.item_id === thread.base.item_id ? thread.base.sha256 : null} />
        ))}
      </ol>
    </section>
  );
}

function ContextRow({ item, number, sha }: { item: ModelContextItem; number: number; sha: string | null }) {
  const { item_id, role, type, origin, version, tokens, author, tool, is_error } = item;
  const shown = showInvisible(textOf(item));
  return (
    <li className={`${css.sightItem} ${role === "peer" ? css.peer : ""}`} data-role={role} data-type={type}>
      <p className={css.line}>
        <span>
          {number}. <span className={css.name}>{roleText(role)}</span> <span className={css.quiet}>{type.replaceAll("_", " ")}</span>
          {tool !== undefined && <bdi className={css.mono}> {showInvisible(tool)}</bdi>}
          {is_error === true && <span className={css.bad}> failed</span>}
        </span>
        <span className={css.quiet}>{plural(tokens, "token")}</span>
      </p>
      <p className={css.quiet}>
        From <bdi>{showInvisible(origin)}</bdi>
        {version !== undefined && `, version ${version}`}
        {author !== undefined && (
          <>
            {" "}
            by <bdi>{showInvisible(author)}</bdi>
          </>
        )}{" "}
        · <code className={css.mono}>{showInvisible(item_id)}</code>
      </p>
      {sha !== null && (
        <p className={css.quiet}>
          SHA-256{" "}
          <code className={css.mono} data-sha>
            {sha}
          </code>
        </p>
      )}
      {shown.length <= SHORT ? <LongText text={shown} label={`Text of item ${number}`} /> : <Long text={shown} label={`Text of item ${number}`} />}
    </li>
  );
}

function textOf({ text, arguments: given, data }: ModelContextItem): string {
  const more = [given, data].filter((each) => each !== undefined && each !== null).map((each) => (typeof each === "string" ? each : JSON.stringify(each, null, 2)));
  return [text, ...more].filter((each) => each !== "").join("\n");
}

function LongText({ text, label }: { text: string; label: string }) {
  if (text === "") return null;
  return (
    <pre className={css.text} tabIndex={0} role="region" aria-label={label} dir="auto">
      {text}
    </pre>
  );
}

function Long({ text, label }: { text: string; label: string }) {
  return (
    <details className={css.folded}>
      <summary>{text.slice(0, SHORT / 4)}…</summary>
      <LongText text={text} label={label} />
    </details>
  );
}
