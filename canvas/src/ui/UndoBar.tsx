/** The last undoable action with its undo button. Shown until it is used, dismissed, replaced, or expired. */

import { useSession } from "../core/app";
import { useSeconds } from "./useSeconds";
import { Button, IconButton } from "./Button";
import { useStored } from "../core/store/store";
import { ActionProblem, useAction } from "./useAction";
import css from "./UndoBar.module.css";

export function UndoBar() {
  const { undo } = useSession();
  const last = useStored(undo);
  const action = useAction();
  return (
    <div role="status" className={css.holder}>
      {last !== null && (
        <div className={css.bar}>
          <p>
            <bdi>{last.text}</bdi>
            {last.until !== undefined && <TimeLeft until={last.until} />}
          </p>
          <ActionProblem action={action} className={css.problem} />
          <Button kind="quiet" disabled={action.busy} onClick={() => action.run(last.run, "Undone", () => undo.set(null))}>
            Undo
          </Button>
          <IconButton icon="close" label="Dismiss" onClick={() => undo.set(null)} />
        </div>
      )}
    </div>
  );
}

/** Hidden from screen readers: it changes every second. */
function TimeLeft({ until }: { until: number }) {
  const left = Math.max(0, Math.floor((until - useSeconds(true)) / 1_000));
  return (
    <span aria-hidden="true" className={css.left}>
      {" "}
      {left} s
    </span>
  );
}
