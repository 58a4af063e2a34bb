/** Create a workspace, show its token once, and watch its agent connect. */

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
  // A token that was not hidden is shown again on return; otherwise an empty form.
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
