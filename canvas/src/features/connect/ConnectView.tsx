/** Create a workspace, show its token once, and watch its agent connect. */

import { useEffect, useState } from "react";
import { useSession } from "../../core/app";
import { useStored } from "../../core/store/store";
import { Button } from "../../ui/Button";
import { A2AAgentForm } from "./A2AAgentForm";
import { AddAgent } from "./AddAgent";
import { ConnectionStatus } from "./ConnectionStatus";
import css from "./ConnectView.module.css";
import { Machines } from "./Machines";
import { WorkspaceForm } from "./WorkspaceForm";
import { useHosts } from "./useHosts";
import { useRunners } from "./useRunners";

export function ConnectView() {
  const session = useSession();
  const made = useStored(session.createdWorkspace);
  // A token that was not hidden is shown again on return; otherwise an empty form.
  useEffect(() => () => session.createdWorkspace.update((last) => (last?.token === "" ? null : last)), [session]);
  const hosts = useHosts();
  const runners = useRunners();
  const [byHand, setByHand] = useState(false);
  const [byCard, setByCard] = useState(false);
  if (made === null && byCard) {
    return (
      <div className={css.connect}>
        <div className={css.inside}>
          <h2 className={css.title}>Add an A2A agent</h2>
          <A2AAgentForm />
          <div>
            <Button onClick={() => setByCard(false)}>Add another kind of agent</Button>
          </div>
        </div>
      </div>
    );
  }
  const card = <Button onClick={() => setByCard(true)}>Add an A2A agent by its card</Button>;
  if (made === null && !byHand && runners.rows !== null && runners.rows.length > 0) {
    return (
      <div className={css.connect}>
        <div className={css.inside}>
          <h2 className={css.title}>Add an agent</h2>
          <AddAgent runners={runners.rows} />
          <Machines runners={runners.rows} />
          <div>
            <Button onClick={() => setByHand(true)}>Connect an agent that you start yourself</Button>
          </div>
          <div>{card}</div>
        </div>
      </div>
    );
  }
  return (
    <div className={css.connect}>
      <div className={css.inside}>
        <h2 className={css.title}>Connect an agent</h2>
        {made === null ? (
          <>
            <WorkspaceForm hosts={hosts} onMade={session.createdWorkspace.set} />
            {session.canSend && <div>{card}</div>}
          </>
        ) : (
          <ConnectionStatus connection={made} hosts={hosts} onHide={() => session.createdWorkspace.set({ ...made, token: "" })} onAnother={() => session.createdWorkspace.set(null)} />
        )}
      </div>
    </div>
  );
}
