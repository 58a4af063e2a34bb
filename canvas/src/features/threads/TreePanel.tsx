/** The tree of a thread: parents, statuses, and waits with their deadlines; below it every call between its threads and the
 * state of each message. */

import { Link } from "../../ui/Link";
import { Notice } from "../../ui/Notice";
import { Time } from "../../ui/Time";
import { showInvisible } from "../../core/text/invisible";
import { plural } from "../../core/text/strings";
import { CallLine, TimeLeft, Names, ThreadName } from "./Calls";
import { treeRows, type ThreadsState, type Node } from "./fold";
import { StatusGlyph, ThreadStatus } from "./ThreadStatus";
import css from "./Threads.module.css";
import { kindText, mailText, nameOf, receiptText } from "./texts";

/** A longer list is not readable. */
const MAX_CALLS = 200;

export function TreePanel({ known, id, isRead }: { known: ThreadsState; id: string; isRead: boolean }) {
  const rows = treeRows(known);
  if (!isRead && rows.length === 0) return <Notice icon="clock" title="Loading agents…" />;
  const calls = [...known.calls.values()].sort((one, other) => when(other.beganAt ?? other.endedAt) - when(one.beganAt ?? one.endedAt)).slice(0, MAX_CALLS);
  const mail = [...known.mail.values()].sort((one, other) => when(other.sent_at) - when(one.sent_at)).slice(0, MAX_CALLS);
  const onKey = (event: React.KeyboardEvent<HTMLUListElement>): void => {
    const links = [...event.currentTarget.querySelectorAll<HTMLElement>("[data-row]")];
    const at = links.indexOf(document.activeElement as HTMLElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: links.length - 1 }[event.key];
    const next = at === -1 || to === undefined ? undefined : links[to];
    if (next === undefined) return;
    event.preventDefault();
    next.focus();
  };
  return (
    <div className={css.tree}>
      <section aria-label="Agents in this tree" className={css.part}>
        <h3>{plural(rows.length, "thread")}</h3>
        <ul className={css.rows} onKeyDown={onKey}>
          {rows.map((node) => (
            <TreeRow key={node.thread.thread_id} node={node} known={known} isHere={node.thread.thread_id === id} />
          ))}
        </ul>
      </section>
      <section aria-label="Calls" className={css.part}>
        <h3>Calls between agents</h3>
        {calls.length === 0 && <p className={css.quiet}>No calls yet.</p>}
        <ul className={css.list}>
          {calls.map((each) => (
            <li key={each.key}>
              <CallLine call={each} known={known} />
            </li>
          ))}
        </ul>
      </section>
      <section aria-label="Messages" className={css.part}>
        <h3>Messages</h3>
        {mail.length === 0 && <p className={css.quiet}>No messages yet.</p>}
        <ul className={css.list}>
          {mail.map((each) => {
            const { words, look } = receiptText(each);
            return (
              <li key={each.mail_id} className={css.line} data-mail={each.state}>
                <span>
                  {mailText(each.mail_type)} from {each.author_thread_id === null ? "outside" : <ThreadName id={each.author_thread_id} known={known} />} to{" "}
                  <ThreadName id={each.receiver_thread_id} known={known} />
                </span>
                <StatusGlyph look={look}>{words}</StatusGlyph>
                <Time at={each.sent_at} className={css.quiet} />
              </li>
            );
          })}
        </ul>
      </section>
    </div>
  );
}

function when(at: string | null): number {
  return at === null ? 0 : Date.parse(at);
}

/** Deeper rows are not indented further. */
const MAX_INDENT = 6;

function TreeRow({ node: { thread, level, waits }, known, isHere }: { node: Node; known: ThreadsState; isHere: boolean }) {
  const { thread_id, role, kind, tokens_used } = thread;
  return (
    <li className={css.treeRow} data-level={Math.min(level, MAX_INDENT)} data-thread={thread.path}>
      <p className={css.line}>
        <Link className={css.name} data-row to={{ view: "thread", id: thread_id, tab: "tree" }} aria-current={isHere ? "true" : undefined}>
          <span className="visually-hidden">Level {level}: </span>
          <bdi>{showInvisible(nameOf(thread))}</bdi>
        </Link>
        <span className={css.quiet}>
          <bdi>{showInvisible(role ?? kindText(kind))}</bdi> · {plural(tokens_used, "token")}
        </span>
      </p>
      <ThreadStatus thread={thread} />
      {waits.map(({ key, call }) => (
        <p key={key} className={css.waits} data-wait>
          Waiting for {call.mode === "all" ? "all of" : call.receiver_thread_ids.length > 1 ? "any of" : ""} <Names ids={call.receiver_thread_ids} known={known} />{" "}
          {call.deadline !== null && <TimeLeft micros={call.deadline} />}
        </p>
      ))}
    </li>
  );
}
