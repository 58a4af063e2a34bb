/** Messages and tasks at planned times: when each runs next, what its runs did, and a form for operators. */

import { useState } from "react";
import { errorText } from "../../core/api/api";
import { useData, useSession } from "../../core/app";
import type { ScheduleRunPage, ScheduleRunView, ScheduleView } from "../../core/wire";
import { Button } from "../../ui/Button";
import { Link } from "../../ui/Link";
import { Notice } from "../../ui/Notice";
import page from "../../ui/Page.module.css";
import group from "../../ui/SettingsGroup.module.css";
import { ActionProblem, useAction } from "../../ui/useAction";
import { ScheduleForm } from "./ScheduleForm";
import css from "./SchedulesView.module.css";
import { plannedText, runText, stateText } from "./texts";
import { useSchedules } from "./useSchedules";

export function SchedulesView() {
  const { identity } = useSession();
  const path = `/orgs/${encodeURIComponent(identity.org.id)}/schedules`;
  const { schedules, problem, reread } = useSchedules(path);
  const [edited, setEdited] = useState<ScheduleView | "new" | null>(null);
  const mayChange = identity.user.role !== "viewer";
  return (
    <div className={page.page}>
      <div className={page.inside}>
        <div className={css.head}>
          <h2 className={css.title}>Schedules</h2>
          <Link to={{ view: "work", list: "open" }} className={css.link}>Work</Link>
          {mayChange && edited === null && <Button icon="plus" onClick={() => setEdited("new")}>Add schedule</Button>}
        </div>
        {edited !== null && (
          <ScheduleForm key={edited === "new" ? "" : edited.schedule_id} path={path} schedule={edited === "new" ? null : edited} onSaved={reread} onClose={() => setEdited(null)} />
        )}
        {problem !== null && <Notice icon="warning" title="Could not load schedules" actions={<Button onClick={() => void reread()}>Try again</Button>}>{problem}</Notice>}
        {schedules === null && problem === null && <Notice icon="clock" title="Loading schedules…" />}
        {schedules?.length === 0 && edited === null && <Notice icon="clock" title="No schedules">A schedule sends a message or delegates a task at planned times.</Notice>}
        <ul className={css.list} aria-label="Schedules">
          {schedules?.map((each) => (
            <ScheduleRow key={each.schedule_id} path={path} schedule={each} mayChange={mayChange} onChange={() => setEdited(each)} onChanged={reread} />
          ))}
        </ul>
      </div>
    </div>
  );
}

interface RowProps {
  path: string;
  schedule: ScheduleView;
  mayChange: boolean;
  onChange: () => void;
  onChanged: () => Promise<void>;
}

function ScheduleRow({ path, schedule, mayChange, onChange, onChanged }: RowProps) {
  const { api } = useSession();
  const action = useAction();
  const [isRemoving, setIsRemoving] = useState(false);
  const { name, source_id, target_id, text, state, next_runs, last_run } = schedule;
  const own = `${path}/${encodeURIComponent(schedule.schedule_id)}`;
  const isPaused = state === "paused";
  const pause = (): void => action.run(() => api.request("PUT", `${own}/paused`, { paused: !isPaused }), isPaused ? "Resumed" : "Paused", onChanged);
  const remove = (): void => action.run(() => api.request("DELETE", own), "Deleted", onChanged);
  return (
    <li className={group.group} data-schedule={schedule.schedule_id}>
      <h3 dir="auto">{name}</h3>
      <p>
        {schedule.action === "delegate" ? <>{source_id !== null && <AgentLink id={source_id} />} delegates a task to </> : <>{source_id === null ? schedule.author : <AgentLink id={source_id} />} sends a message to </>}
        <AgentLink id={target_id} />
        {schedule.cron === null ? " once" : <> at <code>{schedule.cron}</code> ({schedule.time_zone})</>}
      </p>
      <p className={css.text} dir="auto" tabIndex={0} role="region" aria-label={`Text of ${name}`}>{text}</p>
      <p>
        <strong>{stateText(schedule)}</strong>
        {next_runs.length > 0 && ` · Next: ${next_runs.slice(0, 3).map(plannedText).join(" · ")}`}
      </p>
      {last_run !== null && <Run run={last_run} label="Last run: " action={schedule.action} />}
      <Runs path={own} schedule={schedule} />
      {mayChange && (
        <div className={css.deeds}>
          {state !== "ended" && <Button onClick={pause} disabled={action.busy} aria-label={`${isPaused ? "Resume" : "Pause"} ${name}`}>{isPaused ? "Resume" : "Pause"}</Button>}
          <Button onClick={onChange} aria-label={`Change… ${name}`}>Change…</Button>
          {isRemoving ? (
            <>
              <Button kind="danger" onClick={remove} disabled={action.busy} aria-label={`Delete schedule ${name}`}>Delete schedule</Button>
              <Button onClick={() => setIsRemoving(false)} aria-label={`Keep ${name}`}>Keep</Button>
            </>
          ) : (
            <Button onClick={() => setIsRemoving(true)} aria-label={`Delete… ${name}`}>Delete…</Button>
          )}
        </div>
      )}
      <ActionProblem action={action} className={undefined} />
    </li>
  );
}

function AgentLink({ id }: { id: string }) {
  const name = useData((state) => state.workspaces.get(id)?.name);
  if (name === undefined) return <>a removed agent</>;
  return <Link to={{ view: "org", focus: id, panel: "chat", filter: "" }} className={css.link}><bdi>{name}</bdi></Link>;
}

/** A run, with the way to what it began. */
function Run({ run, label, action }: { run: ScheduleRunView; label?: string; action: string }) {
  return (
    <p className={css.muted} dir="auto">
      {label}
      {plannedText(run.planned_at)} · {runText(run)}
      {run.work_id !== null && (
        <>
          {" · "}
          <Link to={action === "delegate" ? { view: "delegation", id: run.work_id, node: null } : { view: "trace", id: run.work_id }} className={css.link}>
            {action === "delegate" ? "View task" : "Whole request"}
          </Link>
        </>
      )}
    </p>
  );
}

/** Earlier runs, read when they are opened. */
function Runs({ path, schedule }: { path: string; schedule: ScheduleView }) {
  const { api } = useSession();
  const [runs, setRuns] = useState<readonly ScheduleRunView[] | null>(null);
  const [before, setBefore] = useState<string | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const read = (from: string | null): void => {
    api.request<ScheduleRunPage>("GET", `${path}/runs${from === null ? "" : `?${new URLSearchParams({ before: from }).toString()}`}`).then(
      (found) => {
        setRuns([...(from === null ? [] : (runs ?? [])), ...found.runs]);
        setBefore(found.before);
        setProblem(null);
      },
      (error: unknown) => setProblem(errorText(error)),
    );
  };
  return (
    <details onToggle={(event) => event.currentTarget.open && read(null)}>
      <summary className={css.more}>Runs of <bdi>{schedule.name}</bdi></summary>
      {problem !== null && <p role="alert">{problem}</p>}
      {runs?.length === 0 && <p className={css.muted}>It has not run yet.</p>}
      <ul className={css.runs}>
        {runs?.map((run) => (
          <li key={run.planned_at}><Run run={run} action={schedule.action} /></li>
        ))}
      </ul>
      {before !== null && <Button onClick={() => read(before)}>Load older runs</Button>}
    </details>
  );
}
