/** Create a workspace below another one; the next view shows how to connect its agent. */

import { useId, useState, type FormEvent } from "react";
import { useApp, useData, useSession } from "../../core/app";
import type { CreatedWorkspace } from "../../core/api/api";
import type { Workspace } from "../../core/state/model";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { ActionProblem, useAction } from "../../ui/useAction";
import { useFirstField } from "../../ui/useFirstField";
import css from "./AgentActions.module.css";

export function AddBelowDialog({ parent, onClose }: { parent: Workspace; onClose: () => void }) {
  const { router } = useApp();
  const session = useSession();
  const longest = useData((state) => state.limits.name_length);
  const [name, setName] = useState("");
  const [role, setRole] = useState("");
  const first = useFirstField<HTMLInputElement>();
  const action = useAction();
  const id = useId();
  const create = async (): Promise<CreatedWorkspace> => {
    const made = await session.api.createWorkspace({ name: name.trim(), parent_id: parent.id, ...(role.trim() === "" ? {} : { role: role.trim() }) });
    session.createdWorkspace.set(made); // its token is shown there, once
    return made;
  };
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (name.trim() === "") return;
    action.run(create, "Workspace created", () => {
      onClose();
      router.go({ view: "connect" });
    });
  };
  return (
    <Dialog label={`Add agent below ${parent.name}`} onClose={onClose}>
      <form className={css.dialog} onSubmit={submit}>
        <div className={css.field}>
          <label htmlFor={`${id}name`}>Name</label>
          <input id={`${id}name`} ref={first} value={name} maxLength={longest} required autoComplete="off" onChange={(event) => setName(event.target.value)} />
        </div>
        <div className={css.field}>
          <label htmlFor={`${id}role`}>Role (optional)</label>
          <input id={`${id}role`} value={role} autoComplete="off" onChange={(event) => setRole(event.target.value)} />
        </div>
        <p className={css.lead}>The next page shows how to connect the agent.</p>
        <ActionProblem action={action} className={css.problem} />
        <div className={css.buttons}>
          <Button kind="primary" type="submit" disabled={name.trim() === "" || action.busy}>
            Create workspace
          </Button>
          <Button onClick={onClose}>Cancel</Button>
        </div>
      </form>
    </Dialog>
  );
}
