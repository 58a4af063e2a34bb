/** Problems that wait for a person: unanswered and unclaimed messages, dead letters, and frozen chains. */

import { Fragment, useEffect, useState, type ReactNode } from "react";
import { useData, useSession } from "../../core/app";
import type { SessionController } from "../../core/session/sessionController";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { Link } from "../../ui/Link";
import { Notice } from "../../ui/Notice";
import { Time } from "../../ui/Time";
import {
  chainText, countProblems, reasonText, templateText, unclaimedText, type MessageChain, type DeadLetter, type UnansweredMessage, type UnclaimedMessages,
} from "../../core/state/problems";
import { useStored } from "../../core/store/store";
import { countDelegationProblems } from "../../core/state/delegationLists";
import { plainLine } from "../../core/text/plain";
import { clock } from "../../core/text/time";
import { plural } from "../../core/text/strings";
import type { ChainMessageRow } from "../../core/wire";
import { DraftCard } from "../chat/DraftCard";
import { agentsOf, ChainMessages, useChainMessages, type ChainAgent } from "./ChainMessages";
import css from "./ProblemsView.module.css";
import { ActionProblem, useAction, type Action } from "../../ui/useAction";
import { useDelegationProblems } from "../delegations/useDelegationProblems";
import { DelegationProblemSections } from "./DelegationProblems";

export function ProblemsView() {
  const session = useSession();
  const stuck = useStored(session.problemLists.problems);
  const work = useDelegationProblems();
  useEffect(() => void session.problemLists.read(), [session]);
  if (countProblems(stuck) + countDelegationProblems(work) === 0) return <AllClear />;
  return (
    <div className={css.problems}>
      <div className={css.inside}>
        <h2 className={css.title}>Problems</h2>
        <ReadProblem />
        {stuck.unanswered.length > 0 && (
          <Section title="Unanswered messages" lead="These messages need an answer. An answer that an agent wrote outside Molecule is kept as a draft until you send it.">
            {stuck.unanswered.map((each) => (
              <li key={each.activityId} className={css.row}>
                <UnansweredRow message={each} />
              </li>
            ))}
            {stuck.moreUnanswered && <li className={css.more}>Older messages appear once these are resolved.</li>}
          </Section>
        )}
        {stuck.unclaimed.length > 0 && (
          <Section title="Unread mail" lead="These agents have not picked up messages that need an answer.">
            {stuck.unclaimed.map((each) => (
              <li key={each.workspaceId} className={css.row}>
                <UnclaimedRow unclaimed={each} />
              </li>
            ))}
            {stuck.moreUnclaimed && <li className={css.more}>More agents appear once these are resolved.</li>}
          </Section>
        )}
        <DelegationProblemSections problems={work} />
        {stuck.chains.length > 0 && (
          <Section title="Stopped message chains" lead="Agents messaged each other until a limit was reached. These chains stay stopped until you resume or end them.">
            {stuck.chains.map((each) => (
              <li key={each.rootId} className={css.row}>
                <ChainRow chain={each} />
              </li>
            ))}
          </Section>
        )}
        {stuck.deadLetters.length > 0 && (
          <Section title="Undelivered messages" lead="Molecule stopped trying to deliver these messages. Send them again once the agent can receive them.">
            {stuck.deadLetters.map((each) => (
              <li key={each.activityId} className={css.row}>
                <DeadLetterRow deadLetter={each} />
              </li>
            ))}
            {stuck.moreDeadLetters && <li className={css.more}>Older messages appear once these are resolved.</li>}
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
      <Notice icon="warning" title="Could not load problems" actions={<TryAgain />}>
        {problem}
      </Notice>
    );
  }
  if (readAt === null) return <Notice icon="clock" title="Loading problems…" />;
  return (
    <Notice icon="check" title="No problems">
      Unanswered, unread and undelivered messages, failed and stuck tasks, and agents that message each other endlessly appear here.
    </Notice>
  );
}

/** Shown when the lists could not be read: they are then the last known ones. */
export function ReadProblem() {
  const { problemLists } = useSession();
  const { readAt, problem } = useStored(problemLists.status);
  if (problem === null) return null;
  return (
    <div role="alert" className={css.row}>
      <p>
        <strong>Could not load all problems.</strong> {problem} {readAt === null ? "Some problems may not be shown." : `Showing problems as of ${clock(readAt)}.`}
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

export function UnansweredRow({ message }: { message: UnansweredMessage }) {
  const { readProblems } = useProblemActions();
  const { workspaceId, workspaceName, activityId, sourceId, overdueAt, draft, template } = message;
  const name = useData((state) => state.workspaces.get(workspaceId)?.name) ?? workspaceName;
  const askedBy = useData((state) => (sourceId === null ? "the person who asked" : (state.workspaces.get(sourceId)?.name ?? "a removed agent")));
  return (
    <>
      <p className={css.head}>
        <WorkspaceLink id={workspaceId} name={workspaceName} />
        <Sender id={sourceId} />
        <Time at={message.handedAt} className={css.time} />
      </p>
      <p className={css.words}>
        <bdi>{plainLine(message.summary)}</bdi>
      </p>
      <p className={css.why}>
        {overdueAt === null ? "Answered outside Molecule" : `The answer is overdue${message.reminded ? " and a reminder was sent" : ""}`}
        {template !== null && `. It was delivered with ${templateText(template)}`}
      </p>
      {draft !== null && <DraftCard asked={{ workspaceId, activityId }} draft={draft} agentName={name} askedBy={askedBy} onDone={readProblems} />}
      {sourceId === null && (
        <p className={css.from}>
          <Link className={css.open} to={{ view: "chats", workspaceId, messageId: activityId }}>
            View in chat
          </Link>
        </p>
      )}
    </>
  );
}

export function UnclaimedRow({ unclaimed }: { unclaimed: UnclaimedMessages }) {
  const { workspaceId, workspaceName, waiting, more, since } = unclaimed;
  const known = useData((state) => state.workspaces.get(workspaceId));
  return (
    <>
      <p className={css.head}>
        <WorkspaceLink id={workspaceId} name={workspaceName} />
        <Time at={since} className={css.time} />
      </p>
      <p className={css.words}>{more ? `More than ${plural(waiting, "message")} waiting` : `${plural(waiting, "message")} waiting`}</p>
      {known !== undefined && (
        <>
          <p className={css.why}>{unclaimedText(known)}.</p>
          <p className={css.from}>
            <Link className={css.open} to={{ view: "chats", workspaceId, messageId: null }}>
              Open chat
            </Link>
          </p>
        </>
      )}
    </>
  );
}

export function DeadLetterRow({ deadLetter }: { deadLetter: DeadLetter }) {
  const { api, readProblems } = useProblemActions();
  const [asking, setAsking] = useState(false);
  const action = useAction();
  const discard = (): void => {
    setAsking(false);
    action.run(() => api.discard(deadLetter), "Discarded", readProblems);
  };
  return (
    <>
      <p className={css.head}>
        <WorkspaceLink id={deadLetter.workspaceId} name={deadLetter.workspaceName} />
        <Sender id={deadLetter.sourceId} />
        <Time at={deadLetter.diedAt} className={css.time} />
      </p>
      <p className={css.words}>
        <bdi>{plainLine(deadLetter.summary)}</bdi>
      </p>
      <p className={css.why}>
        {reasonText(deadLetter.reason)}
        {deadLetter.attempts > 0 && `, after ${plural(deadLetter.attempts, "attempt")}`}
        {deadLetter.detail !== null && `: ${deadLetter.detail}`}
      </p>
      <Actions action={action}>
        <Button icon="again" disabled={action.busy} onClick={() => action.run(() => api.requeue(deadLetter), "Message sent again", readProblems)}>
          Send again
        </Button>
        <Button disabled={action.busy} onClick={() => setAsking(true)}>
          Discard…
        </Button>
      </Actions>
      {asking && (
        <Dialog label="Discard this message?" onClose={() => setAsking(false)}>
          <p className={css.ask}>
            <bdi>{deadLetter.workspaceName}</bdi> will never receive it. It stays in the log.
          </p>
          <div className={css.deeds}>
            <Button kind="danger" onClick={discard}>
              Discard
            </Button>
            <Button onClick={() => setAsking(false)}>Cancel</Button>
          </div>
        </Dialog>
      )}
    </>
  );
}

/** Until its messages are read, a chain names the agent that exceeded the limit. */
function chainAgents({ workspaceId, workspaceName }: MessageChain, messages: readonly ChainMessageRow[]): readonly ChainAgent[] {
  const agents = agentsOf(messages);
  return agents.length > 0 || workspaceId === null ? agents : [{ id: workspaceId, name: workspaceName ?? "Removed agent" }];
}

export function ChainRow({ chain }: { chain: MessageChain }) {
  const { api, identity, readProblems } = useProblemActions();
  const action = useAction();
  const org = identity.org.id;
  const read = useChainMessages(chain);
  const agents = chainAgents(chain, read.value?.messages ?? []);
  return (
    <>
      <p className={css.head}>
        {agents.length === 0 && "Message chain"}
        {agents.map(({ id, name }, at) => (
          <Fragment key={id}>
            {at > 0 && <span>{at === agents.length - 1 ? "and" : ","}</span>}
            <WorkspaceLink id={id} name={name} />
          </Fragment>
        ))}
        <Time at={chain.frozenAt} className={css.time} />
      </p>
      {chain.summary !== "" && (
        <p className={css.words}>
          <bdi>{plainLine(chain.summary)}</bdi>
        </p>
      )}
      <p className={css.why}>{chainText(chain)}.</p>
      <ChainMessages chain={chain} read={read} />
      <Actions action={action}>
        <Button icon="play" disabled={action.busy} onClick={() => action.run(() => api.release(org, chain), "Resumed", readProblems)}>
          Resume
        </Button>
        <Button disabled={action.busy} onClick={() => action.run(() => api.end(org, chain), "Ended", readProblems)}>
          End chain
        </Button>
      </Actions>
    </>
  );
}

/** After an action the lists are read again, which removes the row. */
function useProblemActions(): Pick<SessionController, "api" | "identity"> & { readProblems: () => Promise<void> } {
  const session = useSession();
  return { api: session.api, identity: session.identity, readProblems: () => session.problemLists.read() };
}

export function WorkspaceLink({ id, name }: { id: string; name: string }) {
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
      from <bdi>{id === null ? "a person" : (name ?? "a removed agent")}</bdi>
    </span>
  );
}

function Actions({ action, children }: { action: Action; children: ReactNode }) {
  const { canSend } = useSession();
  if (!canSend) return <p className={css.from}>Only operators and owners can do this.</p>;
  return (
    <>
      <div className={css.deeds}>{children}</div>
      <ActionProblem action={action} className={css.problem} />
    </>
  );
}
