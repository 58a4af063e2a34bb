/** What was done last, and the way to take it back. It stays until it is used, put away, or something else is done. */

import { useDesk } from "../app";
import { Button, IconButton } from "../parts/Button";
import { useStored } from "../state/store";
import { DeedProblem, useDeed } from "./useDeed";
import css from "./UndoBar.module.css";

export function UndoBar() {
  const { undo } = useDesk();
  const last = useStored(undo);
  const deed = useDeed();
  return (
    <div role="status" className={css.holder}>
      {last !== null && (
        <div className={css.bar}>
          <p>
            <bdi>{last.words}</bdi>
          </p>
          <DeedProblem deed={deed} className={css.problem} />
          <Button kind="quiet" disabled={deed.busy} onClick={() => deed.run(last.run, "Taken back", () => undo.set(null))}>
            Undo
          </Button>
          <IconButton icon="close" label="Put away" onClick={() => undo.set(null)} />
        </div>
      )}
    </div>
  );
}
