/** Instruction settings of one agent: operators set form and reply time, owners the template. */

import { useEffect, useId, useMemo, useState, type FormEvent } from "react";
import { useData, useSession } from "../../core/app";
import type { WorkspaceChange } from "../../core/api/api";
import { Button } from "../../ui/Button";
import { Link } from "../../ui/Link";
import type { Workspace } from "../../core/state/model";
import { useStored } from "../../core/store/store";
import css from "./WorkspaceInstructions.module.css";
import { ActionProblem, useAction } from "../../ui/useAction";
import { InstructionsApi } from "./api";
import { useRequest } from "../../core/api/useRequest";

/** 30 days, the server's limit. */
const MAX_SECONDS = 2_592_000;

export default function WorkspaceInstructions({ workspace }: { workspace: Workspace }) {
  const { api, identity } = useSession();
  const action = useAction();
  const id = useId();
  // A choice is shown at once, until the server has stored or rejected it.
  const [chosen, setChosen] = useState<WorkspaceChange>({});
  useEffect(() => setChosen({}), [workspace.rev, action.problem]);
  const shown = { ...workspace, ...chosen };
  const change = (part: WorkspaceChange): void => {
    setChosen(part);
    action.run(() => api.changeWorkspace(workspace.id, part), "Saved");
  };
  return (
    <div className={css.settings}>
      {identity.user.role === "owner" && <TemplateChoice workspace={workspace} />}
      <div className={css.setting}>
        <label htmlFor={`${id}shape`}>Instruction format</label>
        <select id={`${id}shape`} disabled={action.busy} value={shown.instruction_shape ?? ""} onChange={(event) => change({ instruction_shape: event.target.value || null })}>
          <option value="">Server default</option>
          <option value="json">Separate JSON field</option>
          <option value="xml">Inside the message text (XML)</option>
          <option value="both">Both</option>
        </select>
      </div>
      <ReplySeconds key={workspace.reply_seconds} workspace={workspace} busy={action.busy} onChange={(seconds) => change({ reply_seconds: seconds })} />
      <label className={css.check}>
        <input type="checkbox" disabled={action.busy} checked={shown.instruction_compact} onChange={(event) => change({ instruction_compact: event.target.checked })} />
        Always compact
      </label>
      <label className={css.check}>
        <input type="checkbox" disabled={action.busy} checked={shown.send_drafts} onChange={(event) => change({ send_drafts: event.target.checked })} />
        Send the final text of a turn as the answer
      </label>
      <ActionProblem action={action} className={css.problem} />
    </div>
  );
}

function ReplySeconds({ workspace, busy, onChange }: { workspace: Workspace; busy: boolean; onChange: (seconds: number | null) => void }) {
  const usual = useData((state) => state.limits.reply_seconds);
  const known = workspace.reply_seconds === null ? "" : String(workspace.reply_seconds);
  const [words, setWords] = useState(known);
  const id = useId();
  const seconds = words.trim() === "" ? null : Number(words);
  const wrong = seconds !== null && (!Number.isInteger(seconds) || seconds < 0 || seconds > MAX_SECONDS);
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (!wrong && words.trim() !== known) onChange(seconds);
  };
  return (
    <form className={css.setting} onSubmit={submit} noValidate>
      <label htmlFor={id}>Answer due after (seconds)</label>
      <span className={css.inline}>
        <input
          id={id}
          inputMode="numeric"
          autoComplete="off"
          placeholder={`${usual}`}
          value={words}
          aria-invalid={wrong || undefined}
          aria-describedby={`${id}hint`}
          onChange={(event) => setWords(event.target.value)}
        />
        <Button type="submit" disabled={busy || wrong || words.trim() === known}>
          Save
        </Button>
      </span>
      <p id={`${id}hint`} className={wrong ? css.problem : css.hint}>
        {wrong ? `Enter a whole number from 0 to ${MAX_SECONDS.toLocaleString("en-GB")}.` : `Leave empty for the server default (${usual}). Set 0 to turn off reminders and overdue answers.`}
      </p>
    </form>
  );
}

/** A text for this workspace alone is a template too. */
function TemplateChoice({ workspace }: { workspace: Workspace }) {
  const session = useSession();
  const calls = useMemo(() => new InstructionsApi(session.api, session.identity.org.id), [session]);
  const { value: rows, problem } = useRequest(() => calls.templates(), String(useStored(session.templateChanges)));
  const action = useAction();
  const id = useId();
  const chosen = workspace.instruction_template_id;
  const choose = (templateId: string): void => action.run(() => calls.assign(workspace.id, templateId || null), "Saved");
  const known = rows ?? [];
  return (
    <div className={css.setting}>
      <label htmlFor={id}>Instruction template</label>
      <select id={id} disabled={action.busy || rows === null} value={chosen ?? ""} onChange={(event) => choose(event.target.value)}>
        <option value="">Runtime default</option>
        {chosen !== null && !known.some((row) => row.id === chosen) && <option value={chosen}>{chosen}</option>}
        {known.map((row) => (
          <option key={row.id}>{row.id}</option>
        ))}
      </select>
      {chosen !== null && (
        <p>
          <Link className={css.way} to={{ view: "instructions", templateId: chosen }}>
            View {chosen}
          </Link>
        </p>
      )}
      {problem !== null && (
        <p role="alert" className={css.problem}>
          {problem}
        </p>
      )}
      <ActionProblem action={action} className={css.problem} />
    </div>
  );
}
