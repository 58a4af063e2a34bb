/** What is stuck and waits for a person: messages without an answer, messages that nobody takes or that could not be delivered, and
 * chains that were stopped. */

import { useEffect, useState, type ReactNode } from "react";
import { useData, useDesk } from "../../core/app";
import type { Desk } from "../../core/session/sessionController";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { Link } from "../../ui/Link";
import { Notice } from "../../ui/Notice";
import { Time } from "../../ui/Time";
import {
  chainWords, countProblems, reasonWords, untakenWords, type Chain, type DeadLetter, type UnansweredMessage, type Untaken,
} from "../../core/state/problems";
import { useStored } from "../../core/store/store";
import { countWork } from "../../core/state/delegationLists";
import { clock } from "../../core/text/time";
import { plural } from "../../core/text/words";
import { DraftCard } from "../chat/DraftCard";
import css from "./ProblemsView.module.css";
import { DeedProblem, useDeed, type Deed } from "../../ui/useAction";
import { useWorkProblems } from "../delegations/useDelegationProblems";
import { WorkProblems } from "./DelegationProblems";

export function ProblemsView() {
  const desk = useDesk();
  const stuck = useStored(desk.stuck.all);
  const work = useWorkProblems();
  useEffect(() => void desk.stuck.read(), [desk]); // no event says that a message has waited too long
  if (countProblems(stuck) + countWork(work) === 0) return <Nothing />;
  return (
    <div className={css.problems}>
      <div className={css.inside}>
        <h2 className={css.title}>Problems</h2>
        <Unread />
        {stuck.unanswered.length > 0 && (
          <Section title="No answer" lead="These messages wanted an answer. What an agent said elsewhere is kept: nobody has got it until you send it.">
            {stuck.unanswered.map((each) => (
              <UnansweredRow key={each.activityId} message={each} />
            ))}
            {stuck.moreUnanswered && <li className={css.more}>Older ones appear when these are dealt with.</li>}
          </Section>
        )}
        {stuck.untaken.length > 0 && (
          <Section title="Mail that nobody takes" lead="Messages that want an answer wait for these agents, and nobody has had them.">
            {stuck.untaken.map((each) => (
              <UntakenRow key={each.workspaceId} seat={each} />
            ))}
            {stuck.moreUntaken && <li className={css.more}>Others appear when these are dealt with.</li>}
          </Section>
        )}
        <WorkProblems problems={work} />
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
              <DeadRow key={each.activityId} letter={each} />
            ))}
            {stuck.moreDeadLetters && <li className={css.more}>Older ones appear when these are dealt with.</li>}
          </Section>
        )}
      </div>
    </div>
  );
}

/** Never said of lists that could not be read. */
function Nothing() {
  const { stuck } = useDesk();
  const { readAt, problem } = useStored(stuck.list);
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

/** Says that the lists could not be read: what is shown then is what was known before. */
function Unread() {
  const { stuck } = useDesk();
  const { readAt, problem } = useStored(stuck.list);
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
  const { stuck } = useDesk();
  return (
    <Button icon="again" onClick={() => void stuck.read()}>
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
  const { readStuck } = useStuck();
  const { workspaceId, workspaceName, activityId, sourceId, overdueAt, draft, template } = message;
  const name = useData((state) => state.workspaces.get(workspaceId)?.name) ?? workspaceName;
  return (
    <li className={css.row}>
      <p className={css.head}>
        <SeatLink id={workspaceId} name={workspaceName} />
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
      {draft !== null && <DraftCard asked={{ workspaceId, activityId }} draft={draft} agentName={name} onDone={readStuck} />}
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

function UntakenRow({ seat }: { seat: Untaken }) {
  const { workspaceId, workspaceName, waiting, more, since } = seat;
  const known = useData((state) => state.workspaces.get(workspaceId));
  return (
    <li className={css.row}>
      <p className={css.head}>
        <SeatLink id={workspaceId} name={workspaceName} />
        <Time at={since} className={css.time} />
      </p>
      <p className={css.words}>{more ? `More than ${plural(waiting, "message")} wait` : plural(waiting, "message waits", "messages wait")}</p>
      {known !== undefined && (
        <>
          <p className={css.why}>{untakenWords(known)}.</p>
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

function DeadRow({ letter }: { letter: DeadLetter }) {
  const { api, readStuck } = useStuck();
  const [asking, setAsking] = useState(false);
  const deed = useDeed();
  const discard = (): void => {
    setAsking(false);
    deed.run(() => api.discard(letter), "Discarded", readStuck);
  };
  return (
    <li className={css.row}>
      <p className={css.head}>
        <SeatLink id={letter.workspaceId} name={letter.workspaceName} />
        <Sender id={letter.sourceId} />
        <Time at={letter.diedAt} className={css.time} />
      </p>
      <p className={css.words}>
        <bdi>{letter.summary}</bdi>
      </p>
      <p className={css.why}>
        {reasonWords(letter.reason)}
        {letter.attempts > 0 && `, after ${plural(letter.attempts, "try", "tries")}`}
        {letter.detail !== null && `: ${letter.detail}`}
      </p>
      <Deeds deed={deed}>
        <Button icon="again" disabled={deed.busy} onClick={() => deed.run(() => api.requeue(letter), "It goes out again", readStuck)}>
          Send again
        </Button>
        <Button disabled={deed.busy} onClick={() => setAsking(true)}>
          Discard…
        </Button>
      </Deeds>
      {asking && (
        <Dialog label="Discard this message?" onClose={() => setAsking(false)}>
          <p className={css.ask}>
            <bdi>{letter.workspaceName}</bdi> will never get it. It stays in the log.
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

function ChainRow({ chain }: { chain: Chain }) {
  const { api, session, readStuck } = useStuck();
  const deed = useDeed();
  const org = session.org.id;
  return (
    <li className={css.row}>
      <p className={css.head}>
        {chain.workspaceId === null ? "A chain of messages" : <SeatLink id={chain.workspaceId} name="An agent" />}
        <Time at={chain.frozenAt} className={css.time} />
      </p>
      {chain.summary !== "" && (
        <p className={css.words}>
          <bdi>{chain.summary}</bdi>
        </p>
      )}
      <p className={css.why}>{chainWords(chain)}.</p>
      <Deeds deed={deed}>
        <Button icon="play" disabled={deed.busy} onClick={() => deed.run(() => api.release(org, chain), "It may go on", readStuck)}>
          Let it go on
        </Button>
        <Button disabled={deed.busy} onClick={() => deed.run(() => api.end(org, chain), "Ended", readStuck)}>
          End it
        </Button>
      </Deeds>
    </li>
  );
}

/** After a deed the lists are read again, and its row is gone. */
function useStuck(): Pick<Desk, "api" | "session"> & { readStuck: () => Promise<void> } {
  const desk = useDesk();
  return { api: desk.api, session: desk.session, readStuck: () => desk.stuck.read() };
}

function SeatLink({ id, name }: { id: string; name: string }) {
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

function Deeds({ deed, children }: { deed: Deed; children: ReactNode }) {
  const { maySend } = useDesk();
  if (!maySend) return <p className={css.from}>An operator of the organisation can decide this.</p>;
  return (
    <>
      <div className={css.deeds}>{children}</div>
      <DeedProblem deed={deed} className={css.problem} />
    </>
  );
}
