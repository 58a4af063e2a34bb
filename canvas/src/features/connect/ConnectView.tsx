/** Makes a seat, shows once how to take it, and watches the agent arrive. */

import { useEffect } from "react";
import { useSession } from "../../core/app";
import { useStored } from "../../core/store/store";
import { ConnectionStatus } from "./ConnectionStatus";
import css from "./ConnectView.module.css";
import { WorkspaceForm } from "./WorkspaceForm";
import { useHosts } from "./useHosts";

export function ConnectView() {
  const session = useSession();
  const made = useStored(session.createdWorkspace);
  // Whoever comes back finds a token that they had not put away, and else a new form.
  useEffect(() => () => session.createdWorkspace.update((last) => (last?.token === "" ? null : last)), [session]);
  const hosts = useHosts();
  return (
    <div className={css.connect}>
      <div className={css.inside}>
        <h2 className={css.title}>Connect an agent</h2>
        {made === null ? (
          <WorkspaceForm hosts={hosts} onMade={session.createdWorkspace.set} />
        ) : (
          <ConnectionStatus connection={made} hosts={hosts} onHide={() => session.createdWorkspace.set({ ...made, token: "" })} onAnother={() => session.createdWorkspace.set(null)} />
        )}
      </div>
    </div>
  );
}
