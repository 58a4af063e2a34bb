/** Adds or changes a schedule. The next runs are shown while it is written. */

import { useEffect, useId, useState, type FormEvent, type ReactNode } from "react";
import { errorText } from "../../core/api/api";
import { useData, useSession } from "../../core/app";
import type { ScheduleBody, ScheduleTimes, ScheduleView } from "../../core/wire";
import { Button } from "../../ui/Button";
import group from "../../ui/SettingsGroup.module.css";
import { ActionProblem, useAction } from "../../ui/useAction";
import css from "./SchedulesView.module.css";
import { plannedText } from "./texts";

const PREVIEW_AFTER_MS = 400;

interface Props {
  path: string;
  /** Null: a new one. */
  schedule: ScheduleView | null;
  onSaved: () => Promise<void>;
  onClose: () => void;
}

export function ScheduleForm({ path, schedule, onSaved, onClose }: Props) {
  const { api } = useSession();
  const agents = [...useData((state) => state.workspaces).values()].sort((one, other) => one.name.localeCompare(other.name));
  const [body, setBody] = useState(() => bodyOf(schedule));
  const action = useAction();
  const id = useId();
  const change = (part: Partial<ScheduleBody>): void => setBody((known) => ({ ...known, ...part }));
  const isComplete = body.name.trim() !== "" && body.target_id !== "" && body.text.trim() !== "" && (body.cron ?? body.once ?? "") !== "";
  const save = (event: FormEvent): void => {
    event.preventDefault();
    const sent = { ...body, source_id: body.source_id || null };
    const call = schedule === null ? () => api.request("POST", path, sent) : () => api.request("PUT", `${path}/${encodeURIComponent(schedule.schedule_id)}`, sent);
    action.run(call, "Saved", async () => {
      await onSaved();
      onClose();
    });
  };
  const agentOptions = agents.map((each) => (
    <option key={each.id} value={each.id}>{each.name}</option>
  ));
  return (
    <form className={group.group} aria-labelledby={`${id}title`} onSubmit={save}>
      <h3 id={`${id}title`}>{schedule === null ? "Add a schedule" : "Change a schedule"}</h3>
      <div className={css.form}>
        <Field label="Name">{(field) => <input id={field} value={body.name} autoComplete="off" onChange={(event) => change({ name: event.target.value })} />}</Field>
        <Field label="What it does">
          {(field) => (
            <select id={field} value={body.action} onChange={(event) => change({ action: event.target.value as ScheduleBody["action"] })}>
              <option value="message">Sends a message</option>
              <option value="delegate">Delegates a task</option>
            </select>
          )}
        </Field>
        <Field label="From">
          {(field) => (
            <select id={field} value={body.source_id ?? ""} onChange={(event) => change({ source_id: event.target.value })}>
              <option value="">{body.action === "delegate" ? "Choose an agent" : "You"}</option>
              {agentOptions}
            </select>
          )}
        </Field>
        <Field label="To">
          {(field) => (
            <select id={field} value={body.target_id} onChange={(event) => change({ target_id: event.target.value })}>
              <option value="">Choose an agent</option>
              {agentOptions}
            </select>
          )}
        </Field>
        <Field label="Text" whole>{(field) => <textarea id={field} rows={3} value={body.text} onChange={(event) => change({ text: event.target.value })} />}</Field>
        <Field label="When">
          {(field) => (
            <select id={field} value={body.cron === null ? "once" : "cron"} onChange={(event) => change(event.target.value === "cron" ? { cron: "0 8 * * MON-FRI", once: null } : { cron: null, once: "" })}>
              <option value="cron">Again and again</option>
              <option value="once">Once</option>
            </select>
          )}
        </Field>
        {body.cron === null ? (
          <Field label="Time, with its offset">{(field) => <input id={field} value={body.once ?? ""} placeholder="2027-03-01T09:00:00+01:00" autoComplete="off" onChange={(event) => change({ once: event.target.value })} />}</Field>
        ) : (
          <>
            <Field label="Minute, hour, day, month, weekday">{(field) => <input id={field} value={body.cron ?? ""} autoComplete="off" onChange={(event) => change({ cron: event.target.value })} />}</Field>
            <Field label="Time zone">{(field) => <input id={field} value={body.time_zone} autoComplete="off" onChange={(event) => change({ time_zone: event.target.value })} />}</Field>
          </>
        )}
        <Field label="If no server was running">
          {(field) => (
            <select id={field} value={body.misses} onChange={(event) => change({ misses: event.target.value as ScheduleBody["misses"] })}>
              <option value="skip">Skip what was missed</option>
              <option value="once">Run once for all</option>
            </select>
          )}
        </Field>
        <Field label="If the run before is not done">
          {(field) => (
            <select id={field} value={body.overlap} onChange={(event) => change({ overlap: event.target.value as ScheduleBody["overlap"] })}>
              <option value="skip">Skip</option>
              <option value="queue">Run afterwards</option>
            </select>
          )}
        </Field>
        <NextRuns path={path} body={body} />
      </div>
      <div className={css.deeds}>
        <Button kind="primary" type="submit" disabled={!isComplete || action.busy}>Save schedule</Button>
        <Button onClick={onClose}>Cancel</Button>
      </div>
      <ActionProblem action={action} className={undefined} />
    </form>
  );
}

/** A control and its label. */
function Field({ label, whole = false, children }: { label: string; whole?: boolean; children: (id: string) => ReactNode }) {
  const id = useId();
  return (
    <div className={`${css.field} ${whole ? css.whole : ""}`}>
      <label htmlFor={id}>{label}</label>
      {children(id)}
    </div>
  );
}

/** When it would run, or why it cannot, a moment after the last change. */
function NextRuns({ path, body }: { path: string; body: ScheduleBody }) {
  const { api } = useSession();
  const { cron, time_zone, once } = body;
  const [shown, setShown] = useState("");
  useEffect(() => {
    if ((cron ?? once ?? "") === "") return setShown("");
    let isCurrent = true;
    const show = (words: string): void => void (isCurrent && setShown(words));
    const timer = setTimeout(() => {
      api.request<ScheduleTimes>("POST", `${path.slice(0, -1)}-preview`, { cron, time_zone, once, count: 3 }).then(
        ({ next_runs }) => show(next_runs.length === 0 ? "It would never run." : `Next: ${next_runs.map(plannedText).join(" · ")}`),
        (error: unknown) => show(errorText(error)),
      );
    }, PREVIEW_AFTER_MS);
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [api, path, cron, time_zone, once]);
  return <p className={`${css.whole} ${css.muted}`} role="status">{shown}</p>;
}

function bodyOf(schedule: ScheduleView | null): ScheduleBody {
  if (schedule === null) {
    const time_zone = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
    const rest = { source_id: null, once: null, accept: null, rounds: null, may: null, deadline_seconds: null };
    return { name: "", target_id: "", text: "", cron: "0 8 * * MON-FRI", time_zone, action: "message", misses: "skip", overlap: "skip", paused: false, ...rest };
  }
  const { name, target_id, source_id, cron, time_zone, once, action, text, accept, rounds, may, deadline_seconds, misses, overlap, state } = schedule;
  return { name, target_id, source_id, cron, time_zone, once, action, text, accept, rounds, may, deadline_seconds, misses, overlap, paused: state === "paused" };
}
