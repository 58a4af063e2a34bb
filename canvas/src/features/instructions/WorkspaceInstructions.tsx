/** How one agent is told to answer, and how long it has: what an operator sets for its seat; its template an owner does. */

import { useEffect, useId, useMemo, useState, type FormEvent } from "react";
import { useData, useDesk } from "../../core/app";
import type { SeatChange } from "../../core/api/api";
import { Button } from "../../ui/Button";
import { Link } from "../../ui/Link";
import type { Workspace } from "../../core/state/model";
import { useStored } from "../../core/store/store";
import css from "./WorkspaceInstructions.module.css";
import { DeedProblem, useDeed } from "../../ui/useAction";
import { Calls } from "./calls";
import { useAsked } from "../../core/api/useRequest";

/** 30 days; the server takes no more. */
const MOST_SECONDS = 2_592_000;

export default function SeatInstructions({ workspace }: { workspace: Workspace }) {
  const { api, session } = useDesk();
  const deed = useDeed();
  const id = useId();
  // What was chosen is seen at once, until the server has it, or has refused it.
  const [chosen, setChosen] = useState<SeatChange>({});
  useEffect(() => setChosen({}), [workspace.rev, deed.problem]);
  const shown = { ...workspace, ...chosen };
  const change = (part: SeatChange): void => {
    setChosen(part);
    deed.run(() => api.changeSeat(workspace.id, part), "Changed");
  };
  return (
    <div className={css.settings}>
      {session.user.role === "owner" && <TemplateChoice workspace={workspace} />}
      <div className={css.setting}>
        <label htmlFor={`${id}shape`}>How they are told</label>
        <select id={`${id}shape`} disabled={deed.busy} value={shown.instruction_shape ?? ""} onChange={(event) => change({ instruction_shape: event.target.value || null })}>
          <option value="">As the deployment has it</option>
          <option value="json">Beside the message (JSON)</option>
          <option value="xml">In the message’s text (XML)</option>
          <option value="both">Both</option>
        </select>
      </div>
      <ReplySeconds key={workspace.reply_seconds} workspace={workspace} busy={deed.busy} onChange={(seconds) => change({ reply_seconds: seconds })} />
      <label className={css.check}>
        <input type="checkbox" disabled={deed.busy} checked={shown.instruction_compact} onChange={(event) => change({ instruction_compact: event.target.checked })} />
        Always in short
      </label>
      <label className={css.check}>
        <input type="checkbox" disabled={deed.busy} checked={shown.send_drafts} onChange={(event) => change({ send_drafts: event.target.checked })} />
        Send what it said without sending it
      </label>
      <DeedProblem deed={deed} className={css.problem} />
    </div>
  );
}

function ReplySeconds({ workspace, busy, onChange }: { workspace: Workspace; busy: boolean; onChange: (seconds: number | null) => void }) {
  const usual = useData((state) => state.limits.reply_seconds);
  const known = workspace.reply_seconds === null ? "" : String(workspace.reply_seconds);
  const [words, setWords] = useState(known);
  const id = useId();
  const seconds = words.trim() === "" ? null : Number(words);
  const wrong = seconds !== null && (!Number.isInteger(seconds) || seconds < 0 || seconds > MOST_SECONDS);
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
          Set
        </Button>
      </span>
      <p id={`${id}hint`} className={wrong ? css.problem : css.hint}>
        {wrong ? `A whole number from 0 to ${MOST_SECONDS.toLocaleString("en-GB")}.` : `Empty: ${usual}, as the deployment has it. 0: nobody watches for its answers.`}
      </p>
    </form>
  );
}

/** An own text of this workspace alone is a template too. */
function TemplateChoice({ workspace }: { workspace: Workspace }) {
  const desk = useDesk();
  const calls = useMemo(() => new Calls(desk.api, desk.session.org.id), [desk]);
  const { value: rows, problem } = useAsked(() => calls.templates(), String(useStored(desk.templateChanges)));
  const deed = useDeed();
  const id = useId();
  const chosen = workspace.instruction_template_id;
  const choose = (templateId: string): void => deed.run(() => calls.assign(workspace.id, templateId || null), "Changed");
  const known = rows ?? [];
  return (
    <div className={css.setting}>
      <label htmlFor={id}>Template of its instructions</label>
      <select id={id} disabled={deed.busy || rows === null} value={chosen ?? ""} onChange={(event) => choose(event.target.value)}>
        <option value="">That of its runtime</option>
        {chosen !== null && !known.some((row) => row.id === chosen) && <option value={chosen}>{chosen}</option>}
        {known.map((row) => (
          <option key={row.id}>{row.id}</option>
        ))}
      </select>
      {chosen !== null && (
        <p>
          <Link className={css.way} to={{ view: "instructions", templateId: chosen }}>
            Read {chosen}
          </Link>
        </p>
      )}
      {problem !== null && (
        <p role="alert" className={css.problem}>
          {problem}
        </p>
      )}
      <DeedProblem deed={deed} className={css.problem} />
    </div>
  );
}
