/** Actions on a thread: interrupt, compact, close, resume and fork. An error is shown beside them. */

import { useId, useState, type FormEvent } from "react";
import { useApp, useSession } from "../../core/app";
import { newId } from "../../core/session/ids";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import type { ThreadItem, ThreadView } from "../../core/wire";
import { ActionProblem, useAction } from "../../ui/useAction";
import { plural } from "../../core/text/strings";
import type { ThreadsState } from "./fold";
import css from "./Threads.module.css";
import { pathOf } from "./useThreads";
import { nameOf } from "./texts";

type OpenDialog = "stop" | "close" | "resume" | "fork" | null;

interface Props {
  thread: ThreadItem;
  known: ThreadsState;
}

export function ThreadActions({ thread, known }: Props) {
  const { api } = useSession();
  const [asking, setAsking] = useState<OpenDialog>(null);
  const action = useAction();
  const { thread_id, closed, turn_id, queued } = thread;
  const below = [...known.threads.values()].filter(({ path }) => path.startsWith(`${thread.path}/`));
  const stop = (): void => {
    if (below.some(({ idle, closed: over }) => !idle && !over)) setAsking("stop");
    else action.run(() => api.request("POST", pathOf(thread_id, "/interrupt"), { descendants: "detach" }), "Stopped");
  };
  const close = (): void => setAsking(null);
  return (
    <div className={css.acts}>
      <div className={css.buttons} role="group" aria-label="Thread actions">
        <Button disabled={action.busy || turn_id === null} onClick={stop}>
          Stop
        </Button>
        <Button disabled={action.busy || closed} onClick={() => action.run(() => api.request("POST", pathOf(thread_id, "/compact"), {}), "Compaction requested")}>
          Compact
        </Button>
        <Button onClick={() => setAsking("fork")}>Fork…</Button>
        <Button onClick={() => setAsking("resume")}>Resume…</Button>
        <Button disabled={closed} onClick={() => setAsking("close")}>
          Close…
        </Button>
        {queued.length > 0 && <span className={css.quiet}>{plural(queued.length, "turn")} waiting</span>}
      </div>
      <ActionProblem action={action} className={css.problem} />
      {(asking === "stop" || asking === "close") && <EndDialog thread={thread} what={asking} below={below.filter((each) => !each.closed).length} onClose={close} />}
      {(asking === "resume" || asking === "fork") && <ForkDialog thread={thread} what={asking} onClose={close} />}
    </div>
  );
}

type ConfirmEnd = "detach" | "interrupt" | "close";

const END_TEXTS: Readonly<Record<ConfirmEnd, string>> = {
  detach: "Keep them running",
  interrupt: "Stop them",
  close: "Close them",
};

function EndDialog({ thread, what, below, onClose }: { thread: ThreadItem; what: "stop" | "close"; below: number; onClose: () => void }) {
  const { api } = useSession();
  const [fate, setFate] = useState<ConfirmEnd>("detach");
  const action = useAction();
  const verb = what === "stop" ? "Stop" : "Close";
  const fates: ConfirmEnd[] = what === "stop" ? ["detach", "interrupt"] : ["detach", "interrupt", "close"];
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    const path = pathOf(thread.thread_id, what === "stop" ? "/interrupt" : "/close");
    action.run(() => api.request("POST", path, { descendants: fate }), what === "stop" ? "Stopped" : "Closed", onClose);
  };
  return (
    <Dialog label={`${verb} ${nameOf(thread)}`} onClose={onClose}>
      <form className={css.dialog} onSubmit={submit}>
        <p>{what === "stop" ? "The current turn stops immediately. The conversation is kept." : "The thread accepts no more messages. The conversation is kept, and you can resume it."}</p>
        {below > 0 && (
          <fieldset className={css.fates}>
            <legend>What should happen to its {plural(below, "sub-agent")}?</legend>
            {fates.map((each) => (
              <label key={each}>
                <input type="radio" name="fate" checked={fate === each} onChange={() => setFate(each)} />
                <span>{END_TEXTS[each]}</span>
              </label>
            ))}
          </fieldset>
        )}
        <ActionProblem action={action} className={css.problem} />
        <div className={css.buttons}>
          <Button kind="danger" type="submit" disabled={action.busy}>
            {verb}
          </Button>
          <Button onClick={onClose}>Cancel</Button>
        </div>
      </form>
    </Dialog>
  );
}

function ForkDialog({ thread, what, onClose }: { thread: ThreadItem; what: "resume" | "fork"; onClose: () => void }) {
  const { api } = useSession();
  const { router } = useApp();
  const [input, setWish] = useState({ nickname: "", position: "", model: "", effort: "", base_instructions: "" });
  const [key, setKey] = useState(newId);
  const action = useAction();
  const field = (name: keyof typeof input) => ({
    value: input[name],
    onChange: (next: string) => {
      setWish({ ...input, [name]: next });
      setKey(newId()); // with other options it is another fork, also if only the response to the first request was lost
    },
  });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    const { position, nickname, ...settings } = input;
    const given = Object.fromEntries(Object.entries(settings).filter(([, value]) => value.trim() !== ""));
    const place = { ...(nickname.trim() === "" ? {} : { nickname }), ...(position === "" ? {} : { position: Number(position) }), key };
    const body = what === "fork" ? { ...given, ...place } : given;
    action.run(
      async () => {
        const made = await api.request<ThreadView>("POST", pathOf(thread.thread_id, `/${what}`), body);
        onClose();
        if (what === "fork") router.go({ view: "thread", id: made.thread_id, tab: "said" });
      },
      what === "fork" ? "Thread forked" : "Thread resumed",
    );
  };
  return (
    <Dialog label={`${what === "fork" ? "Fork" : "Resume"} ${nameOf(thread)}`} onClose={onClose}>
      <form className={css.dialog} onSubmit={submit}>
        <p>{what === "fork" ? "The new thread starts with a copy of this conversation." : "The thread continues where it stopped."} Empty fields keep their current values.</p>
        {what === "fork" && (
          <>
            <Field label="Nickname" {...field("nickname")} />
            <Field label={`Copy up to entry (1 to ${thread.last_ordinal}; empty for all)`} number={thread.last_ordinal} {...field("position")} />
          </>
        )}
        <Field label="Model" hint={thread.model ?? ""} {...field("model")} />
        <Field label="Effort" hint={thread.effort ?? ""} {...field("effort")} />
        <Field label="New base instructions (creates a new version)" long {...field("base_instructions")} />
        <ActionProblem action={action} className={css.problem} />
        <div className={css.buttons}>
          <Button kind="primary" type="submit" disabled={action.busy}>
            {what === "fork" ? "Fork" : "Resume"}
          </Button>
          <Button onClick={onClose}>Cancel</Button>
        </div>
      </form>
    </Dialog>
  );
}

interface FieldProps {
  label: string;
  value: string;
  onChange: (value: string) => void;
  hint?: string;
  long?: boolean;
  /** A whole number from 1 to this. */
  number?: number;
}

function Field({ label, value, onChange, hint = "", long = false, number }: FieldProps) {
  const id = useId();
  return (
    <div className={css.setting}>
      <label htmlFor={id}>{label}</label>
      {long ? (
        <textarea id={id} rows={3} dir="auto" value={value} onChange={(event) => onChange(event.target.value)} />
      ) : (
        <input id={id} autoComplete="off" type={number === undefined ? "text" : "number"} min={1} max={number} placeholder={hint} value={value} onChange={(event) => onChange(event.target.value)} />
      )}
    </div>
  );
}
