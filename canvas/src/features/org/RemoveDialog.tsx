/** Confirm the removal of workspaces: lists them, and asks for the name if there is more than one. */

import { useId, useState, type FormEvent } from "react";
import { useData, useSession } from "../../core/app";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import type { Workspace } from "../../core/state/model";
import { treeOf } from "../../core/state/tree";
import { descendantsOf } from "../../core/state/moveRules";
import { plural } from "../../core/text/strings";
import css from "./AgentActions.module.css";
import { ActionProblem, useAction } from "../../ui/useAction";

interface Props {
  workspace: Workspace;
  /** Remove the workspace itself too; otherwise only its descendants. */
  whole: boolean;
  onClose: () => void;
}

export function RemoveDialog({ workspace, whole, onClose }: Props) {
  const { api } = useSession();
  const nodes = useData((state) => state.orgNodes);
  const [typed, setTyped] = useState("");
  const action = useAction();
  const field = useId();
  const below = descendantsOf(treeOf(nodes), workspace.id);
  const going = whole ? [workspace.id, ...below] : below;
  const sure = below.length === 0 || typed.trim() === workspace.name.trim();
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (sure) action.run(() => (whole ? api.removeWorkspace(workspace.id, workspace.name) : api.collapse(workspace.id)), "Removed", onClose);
  };
  return (
    <Dialog label={whole ? `Remove ${workspace.name}?` : `Remove the team of ${workspace.name}?`} onClose={onClose}>
      <form className={css.dialog} onSubmit={submit}>
        <p>This removes {plural(going.length, "workspace")} and cannot be undone. Messages stay in the log.</p>
        <ul className={css.going} aria-label="Workspaces to remove" tabIndex={0}>
          {going.map((id) => (
            <li key={id}>
              <bdi>{nodes.get(id)?.name ?? workspace.name}</bdi>
            </li>
          ))}
        </ul>
        {below.length > 0 && (
          <div className={css.field}>
            <label htmlFor={field}>
              Type <strong>{workspace.name}</strong> to confirm
            </label>
            <input id={field} value={typed} autoComplete="off" spellCheck={false} onChange={(event) => setTyped(event.target.value)} />
          </div>
        )}
        <ActionProblem action={action} className={css.problem} />
        <div className={css.buttons}>
          <Button kind="danger" type="submit" disabled={!sure || action.busy}>
            Remove {plural(going.length, "workspace")}
          </Button>
          <Button onClick={onClose}>Cancel</Button>
        </div>
      </form>
    </Dialog>
  );
}
