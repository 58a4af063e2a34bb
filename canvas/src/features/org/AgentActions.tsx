/** What an operator can do with an agent's seat. */

import { useState, type ReactNode } from "react";
import { useData, useDesk } from "../../core/app";
import { Button } from "../../ui/Button";
import { Command } from "../../ui/ShellCommand";
import type { Workspace } from "../../core/state/model";
import { standingOf } from "../../core/state/agentStatus";
import { childrenOf, treeOf } from "../../core/state/tree";
import css from "./AgentActions.module.css";
import { MoveDialog } from "./MoveDialog";
import { RemoveDialog } from "./RemoveDialog";
import { DeedProblem, useDeed } from "../../ui/useAction";

type Asked = "move" | "remove" | "collapse" | null;

export function SeatActions({ workspace }: { workspace: Workspace }) {
  const { api, session } = useDesk();
  const leads = useData((state) => childrenOf(treeOf(state.seats), workspace.id).length > 0);
  const [asked, setAsked] = useState<Asked>(null);
  const [token, setToken] = useState<string | null>(null);
  const deed = useDeed();
  const aside = standingOf(workspace) === "paused" || standingOf(workspace) === "hibernated";
  const close = (): void => setAsked(null);
  return (
    <>
      <div className={css.buttons}>
        {aside ? (
          <Button icon="play" disabled={deed.busy} onClick={() => deed.run(() => api.putAside(workspace.id, "resume"), "It goes on")}>
            Resume
          </Button>
        ) : (
          <>
            <Button disabled={deed.busy} onClick={() => deed.run(() => api.putAside(workspace.id, "pause"), "Paused")}>
              Pause
            </Button>
            <Button disabled={deed.busy} onClick={() => deed.run(() => api.putAside(workspace.id, "hibernate"), "It sleeps")}>
              Let it sleep
            </Button>
          </>
        )}
        <Button onClick={() => setAsked("move")}>Move…</Button>
        <Button disabled={deed.busy} onClick={() => deed.run(() => api.rotate(workspace.id).then(setToken), "A new token was made")}>
          New token
        </Button>
        {leads && <Button onClick={() => setAsked("collapse")}>Remove its team…</Button>}
        <Button onClick={() => setAsked("remove")}>Remove…</Button>
      </div>
      <DeedProblem deed={deed} className={css.problem} />
      {token !== null && <NewToken token={token} onHide={() => setToken(null)} />}
      {session.user.role === "owner" && <Abilities workspace={workspace} />}
      {asked === "move" && <MoveDialog workspace={workspace} onClose={close} />}
      {(asked === "remove" || asked === "collapse") && <RemoveDialog workspace={workspace} whole={asked === "remove"} onClose={close} />}
    </>
  );
}

function NewToken({ token, onHide }: { token: string; onHide: () => void }): ReactNode {
  return (
    <div className={css.token} role="group" aria-label="New token">
      <p>The tokens of before have ended. This one is shown once:</p>
      <Command label="New token" text={token} />
      <Button onClick={onHide}>I have it, hide it</Button>
    </div>
  );
}

function Abilities({ workspace }: { workspace: Workspace }): ReactNode {
  const { api } = useDesk();
  const deed = useDeed();
  const set = (ability: "broadcast_enabled" | "talk_to_user_enabled", on: boolean): void =>
    deed.run(() => api.setAbilities(workspace.id, { [ability]: on }), "Changed");
  return (
    <fieldset className={css.abilities} disabled={deed.busy}>
      <legend>What it may do</legend>
      <label>
        <input type="checkbox" checked={workspace.talk_to_user_enabled} onChange={(event) => set("talk_to_user_enabled", event.target.checked)} />
        Write to people
      </label>
      <label>
        <input type="checkbox" checked={workspace.broadcast_enabled} onChange={(event) => set("broadcast_enabled", event.target.checked)} />
        Write to all agents at once
      </label>
      <DeedProblem deed={deed} className={css.problem} />
    </fieldset>
  );
}
