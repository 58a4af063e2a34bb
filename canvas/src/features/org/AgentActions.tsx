/** Actions of an operator on an agent's workspace. */

import { Suspense, useState, type ReactNode } from "react";
import { useData, useSession } from "../../core/app";
import { Button } from "../../ui/Button";
import { lazyPart } from "../../ui/lazyPart";
import type { Workspace } from "../../core/state/model";
import { statusOf } from "../../core/state/agentStatus";
import { childrenOf, treeOf } from "../../core/state/tree";
import css from "./AgentActions.module.css";
import { EditDialog } from "./EditDialog";
import { MoveDialog } from "./MoveDialog";
import { RemoveDialog } from "./RemoveDialog";
import { ActionProblem, useAction } from "../../ui/useAction";

const NewTokenDialog = lazyPart(() => import("./NewToken").then((found) => found.NewTokenDialog));

type OpenDialog = "edit" | "move" | "token" | "remove" | "collapse" | null;

export function AgentActions({ workspace }: { workspace: Workspace }) {
  const { api, identity } = useSession();
  const leads = useData((state) => childrenOf(treeOf(state.orgNodes), workspace.id).length > 0);
  const [asked, setAsked] = useState<OpenDialog>(null);
  const action = useAction();
  const aside = statusOf(workspace) === "paused" || statusOf(workspace) === "hibernated";
  const close = (): void => setAsked(null);
  return (
    <>
      <div className={css.buttons}>
        {workspace.limited_until !== null && (
          <Button icon="play" disabled={action.busy} onClick={() => action.run(() => api.endLimit(workspace.id), "Limit ended")}>
            End limit
          </Button>
        )}
        {aside ? (
          <Button icon="play" disabled={action.busy} onClick={() => action.run(() => api.putAside(workspace.id, "resume"), "Resumed")}>
            Resume
          </Button>
        ) : (
          <>
            <Button disabled={action.busy} onClick={() => action.run(() => api.putAside(workspace.id, "pause"), "Paused")}>
              Pause
            </Button>
            <Button disabled={action.busy} onClick={() => action.run(() => api.putAside(workspace.id, "hibernate"), "Hibernated")}>
              Hibernate
            </Button>
          </>
        )}
        <Button onClick={() => setAsked("edit")}>Edit…</Button>
        <Button onClick={() => setAsked("move")}>Move…</Button>
        <Button onClick={() => setAsked("token")}>New token…</Button>
        {leads && <Button onClick={() => setAsked("collapse")}>Remove team…</Button>}
        <Button onClick={() => setAsked("remove")}>Remove…</Button>
      </div>
      <ActionProblem action={action} className={css.problem} />
      {identity.user.role === "owner" && <Abilities workspace={workspace} />}
      <Suspense>{asked === "token" && <NewTokenDialog workspace={workspace} onClose={close} />}</Suspense>
      {asked === "edit" && <EditDialog workspace={workspace} onClose={close} />}
      {asked === "move" && <MoveDialog workspace={workspace} onClose={close} />}
      {(asked === "remove" || asked === "collapse") && <RemoveDialog workspace={workspace} whole={asked === "remove"} onClose={close} />}
    </>
  );
}

function Abilities({ workspace }: { workspace: Workspace }): ReactNode {
  const { api } = useSession();
  const action = useAction();
  const set = (ability: "broadcast_enabled" | "talk_to_user_enabled", on: boolean): void =>
    action.run(() => api.setAbilities(workspace.id, { [ability]: on }), "Saved");
  return (
    <fieldset className={css.abilities} disabled={action.busy}>
      <legend>Permissions</legend>
      <label>
        <input type="checkbox" checked={workspace.talk_to_user_enabled} onChange={(event) => set("talk_to_user_enabled", event.target.checked)} />
        Send messages to people
      </label>
      <label>
        <input type="checkbox" checked={workspace.broadcast_enabled} onChange={(event) => set("broadcast_enabled", event.target.checked)} />
        Send broadcasts to all agents
      </label>
      <ActionProblem action={action} className={css.problem} />
    </fieldset>
  );
}
