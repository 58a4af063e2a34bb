/** Apps that people have connected to an agent's workspace by OAuth. Operators disconnect them here. */

import { useEffect, useState } from "react";
import { useSession } from "../../core/app";
import { errorText, type ConnectedApp } from "../../core/api/api";
import { useStored } from "../../core/store/store";
import { absolute } from "../../core/text/time";
import { Button } from "../../ui/Button";
import { ActionProblem, useAction } from "../../ui/useAction";
import css from "./Apps.module.css";

export function ConnectedApps({ workspaceId }: { workspaceId: string }) {
  const session = useSession();
  const changes = useStored(session.appChanges);
  const [apps, setApps] = useState<readonly ConnectedApp[] | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const reread = async (): Promise<void> => {
    try {
      setApps(await session.api.connectedApps(workspaceId));
      setProblem(null);
    } catch (error) {
      setProblem(errorText(error));
    }
  };
  useEffect(() => void reread(), [workspaceId, changes]);
  if (problem !== null) return <p role="alert">{problem}</p>;
  if (apps === null) return <p className={css.hint}>Loading…</p>;
  if (apps.length === 0) {
    return <p className={css.hint}>None. Add the address of this server with /mcp as a connector in an app such as Claude or VS Code.</p>;
  }
  return (
    <ul className={css.apps} aria-label="Connected apps">
      {apps.map((app) => (
        <App key={app.id} app={app} workspaceId={workspaceId} onChanged={reread} />
      ))}
    </ul>
  );
}

function App({ app, workspaceId, onChanged }: { app: ConnectedApp; workspaceId: string; onChanged: () => Promise<void> }) {
  const { api } = useSession();
  const action = useAction();
  const acts = app.scope.split(" ").includes("molecule:act");
  return (
    <li className={css.app}>
      <span className={css.who}>
        <bdi>{app.client_name}</bdi>
        <span className={css.hint}>
          {" "}
          {acts ? "reads and acts" : "reads only"} until <time dateTime={app.expires_at}>{absolute(app.expires_at)}</time>
        </span>
      </span>
      <Button disabled={action.busy} onClick={() => action.run(() => api.disconnectApp(workspaceId, app.id), "Disconnected", onChanged)}>
        Disconnect
      </Button>
      <ActionProblem action={action} className={css.problem} />
    </li>
  );
}
