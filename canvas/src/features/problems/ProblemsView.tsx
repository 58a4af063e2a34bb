/** Problems that wait for a person: unanswered and unclaimed messages, dead letters, and frozen chains. */

import { useEffect, useState, type ReactNode } from "react";
import { useData, useSession } from "../../core/app";
import type { SessionController } from "../../core/session/sessionController";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { Link } from "../../ui/Link";
import { Notice } from "../../ui/Notice";
import { Time } from "../../ui/Time";
import {
  chainText, countProblems, reasonText, unclaimedText, type MessageChain, type DeadLetter, type UnansweredMessage, type UnclaimedMessages,
} from "../../core/state/problems";
import { useStored } from "../../core/store/store";
import { countDelegationProblems } from "../../core/state/delegationLists";
import { clock } from "../../core/text/time";
import { plural } from "../../core/text/strings";
import { DraftCard } from "../chat/DraftCard";
import css from "./ProblemsView.module.css";
import { ActionProblem, useAction, type Action } from "../../ui/useAction";
import { useDelegationProblems } from "../delegations/useDelegationProblems";
import { DelegationProblemSections } from "./DelegationProblems";

export function ProblemsView() {
  const session = useSession();
  const stuck = useStored(session.problemLists.problems);
  const work = useDelegationProblems();
  useEffect(() => void session.problemLists.read(), [session]); // no event reports that a message has waited too long
  if (countProblems(stuck) + countDelegationProblems(work) === 0) return <AllClear />;
  return (
    <div className={css.problems}>
      <div className={css.inside}>
        <h2 className={css.title}>Problems</h2>
        <ReadProblem />
        {stuck.unanswered.length > 0 && (
          <Section title="No answer" lead="These messages wanted an answer. What an agent said elsewhere is kept: nobody has got it until you send it.">
            {stuck.unanswered.map((each) => (
              <UnansweredRow key={each.activityId} message={each} />
            ))}
            {stuck.moreUnanswered && <li className={css.more}>Older ones appear when these are dealt with.</li>}
          </Section>
        )}
        {stuck.unclaimed.length > 0 && (
          <Section title="Mail that nobody takes" lead="Messages that want an answer wait for these agents, and nobody has had them.">
            {stuck.unclaimed.map((each) => (
              <UnclaimedRow key={each.workspaceId} unclaimed={each} />
            ))}
            {stuck.moreUnclaimed && <li className={css.more}>Others appear when these are dealt with.</li>}
          </Section>
        )}
        <DelegationProblemSections problems={work} />
        {stuck.chains.length > 0 && (
          <Section title="Stopped chains" lead="Agents wrote to each other until a limit was reached. Nothing of these chains goes on until you decide.">
            {stuck.chains.map((each) => (
              <ChainRow key={each.rootId} chain={each} />
            ))}
          </Section>
        )}
        {stuck.deadLetters.length > 0 && (
          <Section title="Not delivered" lead="These messages were given up. Send them again once their agent can take them.">
            {stuck.deadLetters.map((each) => (
              <DeadLetterRow key={each.activityId} deadLetter={each} />
            ))}
            {stuck.moreDeadLetters && <li className={css.more}>Older ones appear when these are dealt with.</li>}
          </Section>
        )}
      </div>
    </div>
  );
}

/** Not shown for lists that could not be read. */
function AllClear() {
  const { problemLists } = useSession();
  const { readAt, problem } = useStored(problemLists.status);
  if (problem !== null) {
    return (
      <Notice icon="warning" title="What is stuck could not be read" actions={<TryAgain />}>
        {problem}
      </Notice>
    );
  }
  if (readAt === null) return <Notice icon="clock" title="Reading what is stuck…" />;
  return (
    <Notice icon="check" title="Nothing is stuck">
      Messages that get no answer, that nobody takes or that cannot be delivered, work that fails or does not go on, and agents that write to each other without end,
      appear here.
    </Notice>
  );
}

/** Shown when the lists could not be read: they are then the last known ones. */
function ReadProblem() {
  const { problemLists } = useSession();
  const { readAt, problem } = useStored(problemLists.status);
  if (problem === null) return null;
  return (
    <div role="alert" className={css.row}>
      <p>
        <strong>The lists could not be read.</strong> {problem} {readAt === null ? "There may be more than is shown." : `They are as of ${clock(readAt)}.`}
      </p>
      <p>
        <TryAgain />
      </p>
    </div>
  );
}

function TryAgain() {
  const { problemLists } = useSession();
  return (
    <Button icon="again" onClick={() => void problemLists.read()}>
      Try again
    </Button>
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

function UnansweredRow({ message }: { message: UnansweredMessage }) {
  const { readProblems } = useProblemActions();
  const { workspaceId, workspaceName, activityId, sourceId, overdueAt, draft, template } = message;
  const name = useData((state) => state.workspaces.get(workspaceId)?.name) ?? workspaceName;
  return (
    <li className={css.row}>
      <p className={css.head}>
        <WorkspaceLink id={workspaceId} name={workspaceName} />
        <Sender id={sourceId} />
        <Time at={message.handedAt} className={css.time} />
      </p>
      <p className={css.words}>
        <bdi>{message.summary}</bdi>
      </p>
      <p className={css.why}>
        {overdueAt === null ? "It was answered outside Molecule" : `The answer is overdue${message.reminded ? ", and a reminder did not help" : ""}`}
        {template !== null && `. It was told with ${template}`}
      </p>
      {draft !== null && <DraftCard asked={{ workspaceId, activityId }} draft={draft} agentName={name} onDone={readProblems} />}
      {sourceId === null && (
        <p className={css.from}>
          <Link className={css.open} to={{ view: "chats", workspaceId, messageId: activityId }}>
            Open it in the chat
          </Link>
        </p>
      )}
    </li>
  );
}

function UnclaimedRow({ unclaimed }: { unclaimed: UnclaimedMessages }) {
  const { workspaceId, workspaceName, waiting, more, since } = unclaimed;
  const known = useData((state) => state.workspaces.get(workspaceId));
  return (
    <li className={css.row}>
      <p className={css.head}>
        <WorkspaceLink id={workspaceId} name={workspaceName} />
        <Time at={since} className={css.time} />
      </p>
      <p className={css.words}>{more ? `More than ${plural(waiting, "message")} wait` : plural(waiting, "message waits", "messages wait")}</p>
      {known !== undefined && (
        <>
          <p className={css.why}>{unclaimedText(known)}.</p>
          <p className={css.from}>
            <Link className={css.open} to={{ view: "chats", workspaceId, messageId: null }}>
              Open the chat
            </Link>
          </p>
        </>
      )}
    </li>
  );
}

function DeadLetterRow({ deadLetter }: { deadLetter: DeadLetter }) {
  const { api, readProblems } = useProblemActions();
  const [asking, setAsking] = useState(false);
  const action = useAction();
  const discard = (): void => {
    setAsking(false);
    action.run(() => api.discard(deadLetter), "Discarded", readProblems);
  };
  return (
    <li className={css.row}>
      <p className={css.head}>
        <WorkspaceLink id={deadLetter.workspaceId} name={deadLetter.workspaceName} />
        <Sender id={deadLetter.sourceId} />
        <Time at={deadLetter.diedAt} className={css.time} />
      </p>
      <p className={css.words}>
        <bdi>{deadLetter.summary}</bdi>
      </p>
      <p className={css.why}>
        {reasonText(deadLetter.reason)}
        {deadLetter.attempts > 0 && `, after ${plural(deadLetter.attempts, "try", "tries")}`}
        {deadLetter.detail !== null && `: ${deadLetter.detail}`}
      </p>
      <Actions action={action}>
        <Button icon="again" disabled={action.busy} onClick={() => action.run(() => api.requeue(deadLetter), "It goes out again", readProblems)}>
          Send again
        </Button>
        <Button disabled={action.busy} onClick={() => setAsking(true)}>
          Discard…
        </Button>
      </Actions>
      {asking && (
        <Dialog label="Discard this message?" onClose={() => setAsking(false)}>
          <p className={css.ask}>
            <bdi>{deadLetter.workspaceName}</bdi> will never get it. It stays in the log.
          </p>
          <div className={css.deeds}>
            <Button kind="primary" onClick={discard}>
              Discard it
            </Button>
            <Button onClick={() => setAsking(false)}>Keep it</Button>
          </div>
        </Dialog>
      )}
    </li>
  );
}

function ChainRow({ chain }: { chain: MessageChain }) {
  const { api, identity, readProblems } = useProblemActions();
  const action = useAction();
  const org = identity.org.id;
  return (
    <li className={css.row}>
      <p className={css.head}>
        {chain.workspaceId === null ? "A chain of messages" : <WorkspaceLink id={chain.workspaceId} name="An agent" />}
        <Time at={chain.frozenAt} className={css.time} />
      </p>
      {chain.summary !== "" && (
        <p className={css.words}>
          <bdi>{chain.summary}</bdi>
        </p>
      )}
      <p className={css.why}>{chainText(chain)}.</p>
      <Actions action={action}>
        <Button icon="play" disabled={action.busy} onClick={() => action.run(() => api.release(org, chain), "It may go on", readProblems)}>
          Let it go on
        </Button>
        <Button disabled={action.busy} onClick={() => action.run(() => api.end(org, chain), "Ended", readProblems)}>
          End it
        </Button>
      </Actions>
    </li>
  );
}

/** After an action the lists are read again, which removes the row. */
function useProblemActions(): Pick<SessionController, "api" | "identity"> & { readProblems: () => Promise<void> } {
  const session = useSession();
  return { api: session.api, identity: session.identity, readProblems: () => session.problemLists.read() };
}

function WorkspaceLink({ id, name }: { id: string; name: string }) {
  const known = useData((state) => state.workspaces.get(id)?.name);
  if (known === undefined) return <bdi className={css.name}>{name}</bdi>;
  return (
    <Link className={css.name} to={{ view: "org", focus: id, panel: "about", filter: "" }}>
      <bdi>{known}</bdi>
    </Link>
  );
}

function Sender({ id }: { id: string | null }) {
  const name = useData((state) => (id === null ? null : state.workspaces.get(id)?.name));
  return (
    <span className={css.from}>
      from <bdi>{id === null ? "a person" : (name ?? "an agent that is gone")}</bdi>
    </span>
  );
}

function Actions({ action, children }: { action: Action; children: ReactNode }) {
  const { canSend } = useSession();
  if (!canSend) return <p className={css.from}>An operator of the organisation can decide this.</p>;
  return (
    <>
      <div className={css.deeds}>{children}</div>
      <ActionProblem action={action} className={css.problem} />
    </>
  );
}
