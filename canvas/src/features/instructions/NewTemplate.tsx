/** Create a template that extends another one. */

import { useId, useState, type FormEvent } from "react";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { ActionProblem, useAction } from "../../ui/useAction";
import type { InstructionsApi } from "./api";
import css from "./Instructions.module.css";
import { NO_PARTS, type Row } from "./model";

interface Props {
  calls: InstructionsApi;
  rows: readonly Row[];
  onMade: (id: string) => Promise<void>;
  onClose: () => void;
}

export function NewTemplate({ calls, rows, onMade, onClose }: Props) {
  const [name, setName] = useState("");
  const [base, setBase] = useState(rows[0]?.id ?? "");
  const action = useAction();
  const id = useId();
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    const wanted = name.trim();
    if (wanted === "") return;
    const runtime = rows.find((row) => row.id === base)?.runtime ?? "generic-mcp";
    action.run(() => calls.make({ id: wanted, runtime, extends: base, parts: NO_PARTS }), "Template created", () => onMade(wanted));
  };
  return (
    <Dialog label="New template" onClose={onClose}>
      <form className={css.form} onSubmit={submit}>
        <label htmlFor={`${id}name`}>Name</label>
        <input id={`${id}name`} value={name} autoComplete="off" spellCheck={false} placeholder="support-team" onChange={(event) => setName(event.target.value)} />
        <label htmlFor={`${id}base`}>Extends</label>
        <select id={`${id}base`} value={base} onChange={(event) => setBase(event.target.value)}>
          {rows.map((row) => (
            <option key={row.id}>{row.id}</option>
          ))}
        </select>
        <p className={css.hint}>The new template inherits all texts until you change or add some. Agents use it once you select it for them under About.</p>
        <ActionProblem action={action} className={css.problem} />
        <div className={css.deeds}>
          <Button type="submit" kind="primary" disabled={action.busy || name.trim() === ""}>
            Create
          </Button>
          <Button onClick={onClose}>Cancel</Button>
        </div>
      </form>
    </Dialog>
  );
}
