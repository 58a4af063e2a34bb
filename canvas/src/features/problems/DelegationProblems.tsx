/** Failed, stuck and rejected delegations. */

import type { ReactNode } from "react";
import { useSession } from "../../core/app";
import { Button } from "../../ui/Button";
import { Link } from "../../ui/Link";
import { Time } from "../../ui/Time";
import { shownTask, type Delegation } from "../../core/state/delegations";
import type { RefusedDelegation } from "../../core/state/model";
import { refusedKey, type DelegationProblems as Problems } from "../../core/state/delegationLists";
import { DelegationActions, Failure, PeerLink, StateText } from "../delegations/DelegationItem";
import css from "./ProblemsView.module.css";

export function DelegationProblemSections({ problems }: { problems: Problems }) {
  const { failed, stuck, unknown, refused } = problems;
  return (
    <>
      <DelegationRows title="Failed tasks" lead="These delegated tasks failed. A task leaves this list when you view it or retry it." delegations={failed} seen />
      <DelegationRows title="Stuck tasks" lead="The agent has shown no activity on these tasks. A task may still finish; cancel it if it does not." delegations={stuck} />
      <DelegationRows title="Tasks with unknown outcome" lead="The connection was lost while sending, so a task may or may not be done. Ask the agent before you retry." delegations={unknown} />
      {refused.length > 0 && (
        <Section title="Blocked delegations" lead="A limit blocked these delegations before they started, to prevent agents from delegating endlessly.">
          {refused.map((each) => (
            <li key={each.seq} className={css.row}>
              <RefusedRow refused={each} />
            </li>
          ))}
        </Section>
      )}
    </>
  );
}

function DelegationRows({ title, lead, delegations, seen = false }: { title: string; lead: string; delegations: readonly Delegation[]; seen?: boolean }) {
  if (delegations.length === 0) return null;
  return (
    <Section title={title} lead={lead}>
      {delegations.map((each) => (
        <li key={each.id} className={css.row} data-delegation={each.id}>
          <DelegationRow delegation={each} seen={seen} />
        </li>
      ))}
    </Section>
  );
}

export function DelegationRow({ delegation, seen }: { delegation: Delegation; seen: boolean }) {
  const session = useSession();
  return (
    <>
      <p className={css.head}>
        <span>
          <PeerLink id={delegation.sourceId} /> delegated to <PeerLink id={delegation.targetId} />
        </span>
        <Time at={delegation.settledAt ?? delegation.createdAt} className={css.time} />
      </p>
      <p className={css.words}>
        <bdi>{shownTask(delegation.task)}</bdi>
      </p>
      <p className={css.head}>
        <StateText delegation={delegation} />
      </p>
      {seen && <Failure delegation={delegation} />}
      <DelegationActions delegation={delegation}>
        {seen && (
          <Button icon="check" onClick={() => session.seenProblems.add(delegation.id)}>
            Dismiss
          </Button>
        )}
      </DelegationActions>
    </>
  );
}

const LIMITS: Readonly<Record<string, string>> = {
  cycle: "The task was delegated back to an agent that had delegated it",
  depth: "The task was delegated through too many levels",
  children: "Too many sub-tasks are open at once",
  root: "The root task has too many sub-tasks",
  open: "The agent has too many open delegations",
  org_open: "The organisation has too many open delegations",
};

export function RefusedRow({ refused }: { refused: RefusedDelegation }) {
  const session = useSession();
  const { sourceId, targetId, task, limit, use, most, remedy, at } = refused;
  return (
    <>
      <p className={css.head}>
        <span>
          <PeerLink id={sourceId} /> tried to delegate to <PeerLink id={targetId} />
        </span>
        <Time at={at} className={css.time} />
      </p>
      <p className={css.words}>
        <bdi>{shownTask(task)}</bdi>
      </p>
      <p className={css.why}>
        {LIMITS[limit] ?? limit}
        {limit !== "cycle" && ` (${use} of ${most})`}. <bdi>{remedy}</bdi>
      </p>
      <div className={css.deeds}>
        <Button icon="check" onClick={() => session.seenProblems.add(refusedKey(refused))}>
          Dismiss
        </Button>
        <Link className={css.open} to={{ view: "org", focus: sourceId, panel: "chat", filter: "" }}>
          Open chat
        </Link>
      </div>
    </>
  );
}

function Section({ title, lead, children }: { title: string; lead: string; children: ReactNode }) {
  return (
    <section className={css.section} aria-label={title}>
      <h3>{title}</h3>
      <p className={css.lead}>{lead}</p>
      <ul className={css.rows}>{children}</ul>
    </section>
  );
}
