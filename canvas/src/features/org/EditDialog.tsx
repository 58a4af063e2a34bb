/** Change the name, role and runtime of a workspace. */

import { useId, useState, type FormEvent } from "react";
import { useData, useSession } from "../../core/app";
import type { WorkspaceChange } from "../../core/api/api";
import type { Workspace } from "../../core/state/model";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { ActionProblem, useAction } from "../../ui/useAction";
import { useFirstField } from "../../ui/useFirstField";
import { useHosts } from "../connect/useHosts";
import css from "./AgentActions.module.css";

export function EditDialog({ workspace, onClose }: { workspace: Workspace; onClose: () => void }) {
  const { api } = useSession();
  const longest = useData((state) => state.limits.name_length);
  const [before] = useState(workspace);
  const [name, setName] = useState(before.name);
  const [role, setRole] = useState(before.role ?? "");
  const [runtime, setRuntime] = useState(before.runtime);
  const { rows } = useHosts();
  const first = useFirstField<HTMLInputElement>();
  const action = useAction();
  const id = useId();
  const change = changeOf(before, { name, role, runtime });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (Object.keys(change).length === 0) return onClose();
    action.run(() => api.changeWorkspace(before.id, change), "Saved", onClose);
  };
  const runtimes = [...new Set([before.runtime, ...rows.map((row) => row.runtime)])];
  return (
    <Dialog label={`Edit ${before.name}`} onClose={onClose}>
      <form className={css.dialog} onSubmit={submit}>
        <div className={css.field}>
          <label htmlFor={`${id}name`}>Name</label>
          <input id={`${id}name`} ref={first} value={name} maxLength={longest} required autoComplete="off" onChange={(event) => setName(event.target.value)} />
        </div>
        <div className={css.field}>
          <label htmlFor={`${id}role`}>Role</label>
          <input id={`${id}role`} value={role} autoComplete="off" aria-describedby={`${id}rolehint`} onChange={(event) => setRole(event.target.value)} />
          <p id={`${id}rolehint`} className={css.lead}>
            One line that people and other agents see.
          </p>
        </div>
        <div className={css.field}>
          <label htmlFor={`${id}runtime`}>Runtime</label>
          <select id={`${id}runtime`} value={runtime} aria-describedby={`${id}runtimehint`} onChange={(event) => setRuntime(event.target.value)}>
            {runtimes.map((each) => (
              <option key={each} value={each}>
                {each}
              </option>
            ))}
          </select>
          <p id={`${id}runtimehint`} className={css.lead}>
            Decides how its instructions name the tools. Change it when another kind of agent takes over the workspace.
          </p>
        </div>
        <ActionProblem action={action} className={css.problem} />
        <div className={css.buttons}>
          <Button kind="primary" type="submit" disabled={name.trim() === "" || action.busy}>
            Save
          </Button>
          <Button onClick={onClose}>Cancel</Button>
        </div>
      </form>
    </Dialog>
  );
}

/** Only what the person changed: another person may have changed the rest meanwhile. */
function changeOf(before: Workspace, now: { name: string; role: string; runtime: string }): WorkspaceChange {
  const change: WorkspaceChange = {};
  if (now.name.trim() !== before.name) change.name = now.name.trim();
  if (now.role.trim() !== (before.role ?? "")) change.role = now.role.trim() === "" ? null : now.role.trim();
  if (now.runtime !== before.runtime) change.runtime = now.runtime;
  return change;
}
