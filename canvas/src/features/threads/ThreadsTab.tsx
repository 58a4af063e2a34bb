/** The threads of one agent, newest first: name, status and cost. */

import { useRef, useState } from "react";
import { useSession } from "../../core/app";
import { errorText } from "../../core/api/api";
import { Button } from "../../ui/Button";
import { Link } from "../../ui/Link";
import { Notice } from "../../ui/Notice";
import { Time } from "../../ui/Time";
import { plural } from "../../core/text/strings";
import { showInvisible } from "../../core/text/invisible";
import type { ThreadItem } from "../../core/wire";
import { newestFirst } from "./fold";
import { ThreadStatus } from "./ThreadStatus";
import css from "./Threads.module.css";
import { readThreads, useThreads } from "./useThreads";
import { kindText, nameOf } from "./texts";

type Filter = "all" | "open" | "closed";
const FILTERS: readonly { value: Filter; words: string }[] = [
  { value: "all", words: "All" },
  { value: "open", words: "Running" },
  { value: "closed", words: "Closed" },
];

export function ThreadsTab({ workspaceId }: { workspaceId: string }) {
  const [filter, setFilter] = useState<Filter>("all");
  return (
    <div className={css.tab}>
      <fieldset className={css.filter}>
        <legend className="visually-hidden">Filter threads</legend>
        {FILTERS.map(({ value, words }) => (
          <label key={value}>
            <input type="radio" name="threads" checked={filter === value} onChange={() => setFilter(value)} />
            <span>{words}</span>
          </label>
        ))}
      </fieldset>
      <List key={filter} workspaceId={workspaceId} filter={filter} />
    </div>
  );
}

function isShown({ idle, closed }: ThreadItem, filter: Filter): boolean {
  return filter === "all" || (filter === "closed" ? closed : !idle && !closed);
}

function List({ workspaceId, filter }: { workspaceId: string; filter: Filter }) {
  const { api } = useSession();
  const [end, setEnd] = useState(true);
  const [problem, setProblem] = useState<string | null>(null);
  const paged = useRef(false);
  const state = filter === "all" ? null : filter;
  const found = useThreads({ workspaceId }, async (store) => {
    const isEnd = await readThreads(api, workspaceId, store, { state, before: null });
    if (!paged.current) setEnd(isEnd);
  });
  const all = newestFirst(found.known.threads.values());
  const shown = all.filter((each) => isShown(each, filter));
  if (!found.isRead && shown.length === 0) {
    if (found.problem === null) return <Notice icon="clock" title="Loading threads…" />;
    return (
      <Notice icon="warning" title="Could not load threads" actions={<Button onClick={found.reread}>Try again</Button>}>
        {found.problem}
      </Notice>
    );
  }
  if (shown.length === 0 && end) {
    return (
      <Notice icon="chats" title={filter === "all" ? "No threads yet" : "No matching threads"}>
        {filter === "all" ? "Threads are this agent’s conversations and the sub-agents it starts. They appear here." : "Other threads of this agent are under “All”."}
      </Notice>
    );
  }
  const more = async (): Promise<void> => {
    setProblem(null);
    paged.current = true;
    try {
      setEnd(await readThreads(api, workspaceId, found.store, { state, before: all.at(-1)?.thread_id ?? null }));
    } catch (error) {
      setProblem(errorText(error));
    }
  };
  return (
    <>
      <ul className={css.list} aria-label="Threads">
        {shown.map((thread) => (
          <Row key={thread.thread_id} thread={thread} />
        ))}
      </ul>
      {(problem ?? found.problem) !== null && (
        <p role="alert" className={css.problem}>
          {problem ?? found.problem}
        </p>
      )}
      {!end && (
        <p>
          <Button onClick={() => void more()}>Load older threads</Button>
        </p>
      )}
    </>
  );
}

function Row({ thread }: { thread: ThreadItem }) {
  const { thread_id, path, kind, role, model, tokens_used, updated_at, nickname } = thread;
  return (
    <li className={css.row}>
      <p className={css.line}>
        <Link className={css.name} to={{ view: "thread", id: thread_id, tab: "said" }}>
          <bdi>{showInvisible(nameOf(thread))}</bdi>
        </Link>
        <Time at={updated_at} className={css.quiet} />
      </p>
      <ThreadStatus thread={thread} />
      <p className={css.quiet}>
        {[nickname === "" ? "" : path, role ?? kindText(kind), model ?? "", plural(tokens_used, "token")]
          .filter((each) => each !== "")
          .map((each, at) => (
            <span key={at}>
              {at > 0 && " · "}
              <bdi>{showInvisible(each)}</bdi>
            </span>
          ))}
      </p>
    </li>
  );
}
