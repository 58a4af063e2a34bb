/** Choose the new parent of an agent. An impossible one shows the reason. */

import { useId, useMemo, useState, type FormEvent } from "react";
import { useData, useSession } from "../../core/app";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import type { Workspace } from "../../core/state/model";
import { treeOf } from "../../core/state/tree";
import { descendantsOf, refusalOfMove } from "../../core/state/moveRules";
import { plural } from "../../core/text/strings";
import css from "./AgentActions.module.css";
import { ActionProblem, useAction } from "../../ui/useAction";

/** A longer list is not readable; the filter narrows it down. */
const MAX_LISTED = 50;
const TOP = "";

interface Props {
  workspace: Workspace;
  /** The agent onto which it was dropped; without it the person chooses. */
  target?: string;
  onClose: () => void;
}

export function MoveDialog({ workspace, target, onClose }: Props) {
  const session = useSession();
  const nodes = useData((state) => state.orgNodes);
  const tree = treeOf(nodes);
  const [chosen, setChosen] = useState<string | null>(target ?? null);
  const action = useAction();
  const refusal = chosen === null ? null : refusalOfMove(tree, nodes, workspace.id, chosen === TOP ? null : chosen);
  const below = descendantsOf(tree, workspace.id).length;
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (chosen === null || refusal !== null) return;
    action.run(() => session.moveWorkspace(workspace.id, chosen === TOP ? null : chosen), "Moved", onClose);
  };
  return (
    <Dialog label={`Move ${workspace.name}`} onClose={onClose}>
      <form className={css.dialog} onSubmit={submit}>
        {target === undefined ? (
          <Places id={workspace.id} chosen={chosen} onChoose={setChosen} />
        ) : (
          <p>
            <bdi>{workspace.name}</bdi> will report to <bdi>{nodes.get(target)?.name}</bdi>.
          </p>
        )}
        <p className={css.lead}>
          {below > 0 && `Its team of ${plural(below, "agent")} moves with it. `}
          The agents it can message change immediately.
        </p>
        {refusal !== null && (
          <p className={css.problem} role="alert">
            {refusal}
          </p>
        )}
        <ActionProblem action={action} className={css.problem} />
        <div className={css.buttons}>
          <Button kind="primary" type="submit" disabled={chosen === null || refusal !== null || action.busy}>
            Move
          </Button>
          <Button onClick={onClose}>Cancel</Button>
        </div>
      </form>
    </Dialog>
  );
}

function Places({ id, chosen, onChoose }: { id: string; chosen: string | null; onChoose: (id: string) => void }) {
  const nodes = useData((state) => state.orgNodes);
  const tree = treeOf(nodes);
  const [words, setWords] = useState("");
  const field = useId();
  const found = useMemo(() => {
    const wanted = words.trim().toLowerCase();
    return [...nodes.values()].filter((node) => node.id !== id && node.name.toLowerCase().includes(wanted));
  }, [nodes, words, id]);
  const top = refusalOfMove(tree, nodes, id, null);
  return (
    <>
      <div className={css.field}>
        <label htmlFor={field}>Reports to</label>
        <input id={field} type="search" autoComplete="off" placeholder="Search agents" value={words} autoFocus onChange={(event) => setWords(event.target.value)} />
      </div>
      <ul className={css.places} role="radiogroup" aria-label="New parent">
        <Place value={TOP} name="None (top level)" refusal={top} chosen={chosen} onChoose={onChoose} />
        {found.slice(0, MAX_LISTED).map((node) => (
          <Place key={node.id} value={node.id} name={node.name} refusal={refusalOfMove(tree, nodes, id, node.id)} chosen={chosen} onChoose={onChoose} />
        ))}
        {found.length > MAX_LISTED && <li className={css.none}>and {plural(found.length - MAX_LISTED, "more", "more")}; search to narrow the list</li>}
      </ul>
    </>
  );
}

interface PlaceProps {
  value: string;
  name: string;
  refusal: string | null;
  chosen: string | null;
  onChoose: (id: string) => void;
}

function Place({ value, name, refusal, chosen, onChoose }: PlaceProps) {
  return (
    <li role="none">
      <label>
        <input type="radio" name="place" value={value} checked={chosen === value} disabled={refusal !== null} onChange={() => onChoose(value)} />
        <span>
          <bdi>{name}</bdi>
        </span>
        {refusal !== null && <span className={css.none}>{refusal}</span>}
      </label>
    </li>
  );
}
