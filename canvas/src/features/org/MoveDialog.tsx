/** Asks under whom an agent is to stand. What cannot be says why. */

import { useId, useMemo, useState, type FormEvent } from "react";
import { useData, useDesk } from "../../core/app";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import type { Workspace } from "../../core/state/model";
import { treeOf } from "../../core/state/tree";
import { allBelow, refusalOfMove } from "../../core/state/moveRules";
import { plural } from "../../core/text/words";
import css from "./AgentActions.module.css";
import { DeedProblem, useDeed } from "../../ui/useAction";

/** More than these nobody looks through: letters narrow them down. */
const LISTED = 50;
const TOP = "";

interface Props {
  workspace: Workspace;
  /** Where it was dropped; without it the person chooses. */
  target?: string;
  onClose: () => void;
}

export function MoveDialog({ workspace, target, onClose }: Props) {
  const desk = useDesk();
  const seats = useData((state) => state.seats);
  const tree = treeOf(seats);
  const [chosen, setChosen] = useState<string | null>(target ?? null);
  const deed = useDeed();
  const refusal = chosen === null ? null : refusalOfMove(tree, seats, workspace.id, chosen === TOP ? null : chosen);
  const below = allBelow(tree, workspace.id).length;
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (chosen === null || refusal !== null) return;
    deed.run(() => desk.move(workspace.id, chosen === TOP ? null : chosen), "Moved", onClose);
  };
  return (
    <Dialog label={`Move ${workspace.name}`} onClose={onClose}>
      <form className={css.dialog} onSubmit={submit}>
        {target === undefined ? (
          <Places id={workspace.id} chosen={chosen} onChoose={setChosen} />
        ) : (
          <p>
            <bdi>{workspace.name}</bdi> will answer to <bdi>{seats.get(target)?.name}</bdi>.
          </p>
        )}
        <p className={css.lead}>
          {below > 0 && `${plural(below, "agent", "agents")} below it ${below === 1 ? "goes" : "go"} with it. `}
          Whom it may talk to changes at once.
        </p>
        {refusal !== null && (
          <p className={css.problem} role="alert">
            {refusal}
          </p>
        )}
        <DeedProblem deed={deed} className={css.problem} />
        <div className={css.buttons}>
          <Button kind="primary" type="submit" disabled={chosen === null || refusal !== null || deed.busy}>
            Move
          </Button>
          <Button onClick={onClose}>Cancel</Button>
        </div>
      </form>
    </Dialog>
  );
}

function Places({ id, chosen, onChoose }: { id: string; chosen: string | null; onChoose: (id: string) => void }) {
  const seats = useData((state) => state.seats);
  const tree = treeOf(seats);
  const [words, setWords] = useState("");
  const field = useId();
  const found = useMemo(() => {
    const wanted = words.trim().toLowerCase();
    return [...seats.values()].filter((seat) => seat.id !== id && seat.name.toLowerCase().includes(wanted));
  }, [seats, words, id]);
  const top = refusalOfMove(tree, seats, id, null);
  return (
    <>
      <div className={css.field}>
        <label htmlFor={field}>Under whom?</label>
        <input id={field} type="search" autoComplete="off" placeholder="Letters of a name" value={words} autoFocus onChange={(event) => setWords(event.target.value)} />
      </div>
      <ul className={css.places} role="radiogroup" aria-label="New place">
        <Place value={TOP} name="Nobody: at the top" refusal={top} chosen={chosen} onChoose={onChoose} />
        {found.slice(0, LISTED).map((seat) => (
          <Place key={seat.id} value={seat.id} name={seat.name} refusal={refusalOfMove(tree, seats, id, seat.id)} chosen={chosen} onChoose={onChoose} />
        ))}
        {found.length > LISTED && <li className={css.none}>and {plural(found.length - LISTED, "more", "more")}; type letters of the name</li>}
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
