/** Create several workspaces below one, all or none. */

import { useId, useState, type FormEvent } from "react";
import { useSession } from "../../core/app";
import type { Workspace } from "../../core/state/model";
import { plural } from "../../core/text/strings";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { ActionProblem, useAction } from "../../ui/useAction";
import { useFirstField } from "../../ui/useFirstField";
import css from "./AgentActions.module.css";
import { membersOf } from "./teamMembers";

export function TeamDialog({ parent, onClose }: { parent: Workspace; onClose: () => void }) {
  const { api } = useSession();
  const [words, setWords] = useState("");
  const first = useFirstField<HTMLTextAreaElement>();
  const action = useAction();
  const id = useId();
  const team = membersOf(words);
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (team.length > 0) action.run(() => api.expand(parent.id, team), `${plural(team.length, "workspace")} created`, onClose);
  };
  return (
    <Dialog label={`Create team below ${parent.name}`} onClose={onClose}>
      <form className={css.dialog} onSubmit={submit}>
        <div className={css.field}>
          <label htmlFor={`${id}team`}>Members</label>
          <textarea id={`${id}team`} ref={first} rows={5} value={words} required spellCheck={false} aria-describedby={`${id}hint`} onChange={(event) => setWords(event.target.value)} />
          <p id={`${id}hint`} className={css.lead}>
            One name on each line. A role may follow after a colon, as in “Tester: writes and runs tests”.
          </p>
        </div>
        <p className={css.lead}>To connect an agent to one of them, open it and issue a token under About.</p>
        <ActionProblem action={action} className={css.problem} />
        <div className={css.buttons}>
          <Button kind="primary" type="submit" disabled={team.length === 0 || action.busy}>
            Create {plural(team.length, "workspace")}
          </Button>
          <Button onClick={onClose}>Cancel</Button>
        </div>
      </form>
    </Dialog>
  );
}
