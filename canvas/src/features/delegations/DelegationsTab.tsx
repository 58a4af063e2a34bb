/** Delegations from and to one agent, open ones first. */

import { useEffect, useState } from "react";
import { useData, useSession } from "../../core/app";
import { errorText } from "../../core/api/api";
import { Button } from "../../ui/Button";
import { Elapsed } from "../../ui/Elapsed";
import { Link } from "../../ui/Link";
import { Notice } from "../../ui/Notice";
import { shownTask, type Delegation } from "../../core/state/delegations";
import { useStored } from "../../core/store/store";
import { delegationsByWorkspace } from "../../core/state/delegationLists";
import { StateText } from "./DelegationItem";
import css from "./DelegationsTab.module.css";

/** A longer list is not readable; the rest is in the chats. */
const MAX_ROWS = 100;
const NONE: readonly Delegation[] = [];

export function DelegationsTab({ workspaceId }: { workspaceId: string }) {
  const delegations = useData((state) => delegationsByWorkspace(state.delegations).get(workspaceId)) ?? NONE;
  const { problem, read, retry } = useReadDelegations(workspaceId);
  if (delegations.length === 0) {
    if (problem !== null) {
      return (
        <Notice icon="warning" title="Could not load delegations" actions={<Button onClick={retry}>Try again</Button>}>
          {problem}
        </Notice>
      );
    }
    if (!read) return <Notice icon="clock" title="Loading delegations…" />;
    return (
      <Notice icon="check" title="No delegations yet">
        Tasks that this agent delegates, and tasks delegated to it, appear here.
      </Notice>
    );
  }
  return (
    <div className={css.work}>
      {problem !== null && (
        <p role="alert">
          {problem}{" "}
          <Button kind="quiet" onClick={retry}>
            Try again
          </Button>
        </p>
      )}
      <ul className={css.list} aria-label="Delegations">
        {delegations.slice(0, MAX_ROWS).map((each) => (
          <DelegationRow key={each.id} delegation={each} given={each.sourceId === workspaceId} />
        ))}
      </ul>
      {delegations.length > MAX_ROWS && <p className={css.more}>Older delegations are in the chats.</p>}
    </div>
  );
}

function DelegationRow({ delegation, given }: { delegation: Delegation; given: boolean }) {
  const { id, sourceId, targetId, task, createdAt, settledAt } = delegation;
  const other = useData((state) => state.workspaces.get(given ? targetId : sourceId)?.name) ?? "a removed agent";
  return (
    <li className={css.row}>
      <p className={css.head}>
        <span>
          {given ? "Delegated to" : "Delegated by"} <bdi className={css.name}>{other}</bdi>
        </span>
        <Elapsed from={createdAt} to={settledAt} className={css.time} />
      </p>
      <Link to={{ view: "delegation", id, node: null }} className={css.task}>
        <bdi>{task === "" ? "Task without text" : shownTask(task)}</bdi>
      </Link>
      <p className={css.state}>
        <StateText delegation={delegation} />
      </p>
    </li>
  );
}

/** Read once for each agent, and again after a reconnect. */
function useReadDelegations(workspaceId: string): { problem: string | null; read: boolean; retry: () => void } {
  const session = useSession();
  const lost = useStored(session.connection.view).mode === "lost";
  const [problem, setProblem] = useState<string | null>(null);
  const [read, setRead] = useState(false);
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    if (lost) return;
    session.readDelegationsOf(workspaceId).then(
      () => {
        setProblem(null);
        setRead(true);
      },
      (error: unknown) => setProblem(errorText(error)),
    );
  }, [session, workspaceId, lost, turn]);
  return { problem, read, retry: () => setTurn((each) => each + 1) };
}
