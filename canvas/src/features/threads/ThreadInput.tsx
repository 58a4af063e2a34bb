/** Input to a thread: to the running turn, as its own turn, or either. The text stays until the server has it, also while
 * this is not shown. */

import { useEffect, useId, useRef, useState, type KeyboardEvent } from "react";
import { useSession, useSettings } from "../../core/app";
import { newId } from "../../core/session/ids";
import { Button } from "../../ui/Button";
import type { ThreadItem, TurnResponse } from "../../core/wire";
import { isComposing } from "../../ui/keyboard";
import { ActionProblem, useAction } from "../../ui/useAction";
import css from "./Threads.module.css";
import { pathOf } from "./useThreads";
import { nameOf } from "./texts";

type Mode = "auto" | "queue" | "steer";

export function ThreadInput({ thread }: { thread: ThreadItem }) {
  const { api, drafts } = useSession();
  const { enterSends } = useSettings();
  const { thread_id, turn_id, closed } = thread;
  const draft = `thread.${thread_id}`;
  const [words, setWords] = useState(() => drafts.read(draft));
  const field = useRef<HTMLTextAreaElement>(null);
  const action = useAction();
  const hint = useId();
  useEffect(() => drafts.watch((of, taken) => of === draft && setWords((now) => (now === taken ? "" : now))), [drafts, draft]);
  const change = (next: string): void => {
    setWords(next);
    drafts.write(draft, next);
  };
  const send = (mode: Mode): void => {
    if (words.trim() === "" || action.busy || closed) return;
    const key = drafts.keyOf(draft, `${mode} ${words}`, newId());
    const expected = mode === "steer" ? { expected_turn_id: turn_id } : {};
    action.run(
      () => api.request<TurnResponse>("POST", pathOf(thread_id, "/turns"), { input: words, mode, key, ...expected }),
      ({ joined }) => (joined ? "Added to the current turn" : "Queued as a new turn"),
      () => {
        drafts.taken(draft, key, words);
        field.current?.focus();
      },
    );
  };
  const onKey = (event: KeyboardEvent): void => {
    if (event.key !== "Enter" || isComposing(event.nativeEvent)) return;
    if (event.shiftKey || (!enterSends && !(event.ctrlKey || event.metaKey))) return;
    event.preventDefault();
    send("auto");
  };
  const empty = words.trim() === "";
  return (
    <form
      className={css.say}
      onSubmit={(event) => {
        event.preventDefault();
        send("auto");
      }}
    >
      <ActionProblem action={action} className={css.problem} />
      <textarea
        ref={field}
        className={css.field}
        rows={1}
        dir="auto"
        aria-label={`Message ${nameOf(thread)}`}
        aria-describedby={hint}
        placeholder={closed ? "" : "Send a message"}
        value={words}
        disabled={closed}
        onChange={(event) => change(event.target.value)}
        onKeyDown={onKey}
      />
      <div className={css.sayActs}>
        <p id={hint} className={css.quiet}>
          {closed ? "This thread is closed. Resume it to continue." : turn_id === null ? "Sending starts a turn." : "Sending adds to the current turn."}
        </p>
        <Button disabled={empty || closed || action.busy} onClick={() => send("queue")} title="Send as a separate turn, after the queued turns">
          Queue
        </Button>
        <Button disabled={empty || closed || action.busy || turn_id === null} onClick={() => send("steer")} title="Add to the current turn, or fail if it has ended">
          Steer
        </Button>
        <Button type="submit" kind="primary" icon="send" disabled={empty || closed || action.busy}>
          Send
        </Button>
      </div>
    </form>
  );
}
