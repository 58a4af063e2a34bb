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
      <DelegationRows title="Work that failed" lead="One agent gave it to another one. It leaves this list when you look at it, and when it is tried again." delegations={failed} seen />
      <DelegationRows title="Work that is stuck" lead="An agent has it and has given no sign of life of it. It may go on; cancel it if it does not." delegations={stuck} />
      <DelegationRows title="Work without an answer to its sending" lead="It was sent and the connection broke: it may be done or not. Ask the agent before it is given once more." delegations={unknown} />
      {refused.length > 0 && (
        <Section title="Work that was stopped" lead="A limit stopped it before it began, so that agents do not give each other work without end.">
          {refused.map((each) => (
            <RefusedRow key={each.seq} refused={each} />
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
        <DelegationRow key={each.id} delegation={each} seen={seen} />
      ))}
    </Section>
  );
}

function DelegationRow({ delegation, seen }: { delegation: Delegation; seen: boolean }) {
  const session = useSession();
  return (
    <li className={css.row} data-delegation={delegation.id}>
      <p className={css.head}>
        <span>
          <PeerLink id={delegation.sourceId} /> asked <PeerLink id={delegation.targetId} />
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
            I have seen it
          </Button>
        )}
      </DelegationActions>
    </li>
  );
}

const LIMITS: Readonly<Record<string, string>> = {
  cycle: "The same work came back to who had given it",
  depth: "It was passed on too often",
  children: "Too much of it is open at once",
  root: "Too much has come of the first of it",
};

function RefusedRow({ refused }: { refused: RefusedDelegation }) {
  const session = useSession();
  const { sourceId, targetId, task, limit, use, most, remedy, at } = refused;
  return (
    <li className={css.row}>
      <p className={css.head}>
        <span>
          <PeerLink id={sourceId} /> wanted to ask <PeerLink id={targetId} />
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
          I have seen it
        </Button>
        <Link className={css.open} to={{ view: "org", focus: sourceId, panel: "chat", filter: "" }}>
          Open the chat
        </Link>
      </div>
    </li>
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
