/** One approval in full: what is requested and why, its escalation path, and the outcomes. */

import { useEffect, useRef, useState, type ReactNode } from "react";
import { useApp, useData, useSession } from "../../core/app";
import { errorText } from "../../core/api/api";
import { Button, IconButton } from "../../ui/Button";
import { Icon } from "../../ui/Icon";
import { useLayer } from "../../ui/keyboard";
import { Link } from "../../ui/Link";
import { MessageText } from "../../ui/MessageText";
import { Notice } from "../../ui/Notice";
import { Time } from "../../ui/Time";
import { INBOX } from "../../core/router";
import { isPending, type Approval, type PathStep, type ListName } from "../../core/state/approvals";
import type { InboxKind } from "../../core/state/inboxKinds";
import { isMessageLine } from "../../core/state/model";
import type { Members } from "../../core/state/json";
import { useStored } from "../../core/store/store";
import { absolute, exact } from "../../core/text/time";
import { plainLine } from "../../core/text/plain";
import { showInvisible } from "../../core/text/invisible";
import { useNewestPage } from "../../core/session/useNewestPage";
import { DecisionForm } from "./DecisionForm";
import { ApprovalMark } from "./ApprovalMark";
import { Countdown } from "./Countdown";
import css from "./Inbox.module.css";
import { actionText, holderText, isReview, namedAgents, outcomeTexts, partyText, prettyDetails, sourceText, stateOf, stepText } from "./texts";

interface Props {
  id: string;
  workspaceId: string;
  /** The list to go back to. */
  kind: InboxKind | null;
  list: ListName;
  /** No list is shown beside it. */
  back: boolean;
}

export function ApprovalDetail({ id, workspaceId, kind, list, back }: Props) {
  const { router } = useApp();
  const approval = useData((state) => state.approvals.get(id));
  const problem = useOne(workspaceId, id, approval === undefined);
  const toList = (): void => router.go({ ...INBOX, kind, list });
  useLayer(toList);
  if (approval === undefined) {
    if (problem === null) return <Notice icon="clock" title="Loading request…" />;
    return (
      <Notice icon="search" title="Could not load this request" actions={<Button onClick={toList}>Back to requests</Button>}>
        {problem}
      </Notice>
    );
  }
  return (
    <article className={css.detail} aria-label="Request">
      {back && (
        <p>
          <IconButton icon="back" label="Back to requests" onClick={toList} />
        </p>
      )}
      <Head approval={approval} />
      <Details approval={approval} />
      <DecisionForm approval={approval} />
      {isPending(approval) && (
        <Part title="What happens next">
          <dl className={css.facts}>
            {outcomeTexts(approval).map(({ when, then }) => (
              <div key={when}>
                <dt>{when}</dt>
                <dd>
                  <bdi>{then}</bdi>
                </dd>
              </div>
            ))}
          </dl>
        </Part>
      )}
      <Part title="Escalation path">
        <ol className={css.path}>
          {approval.path.map((step, at) => (
            <Step key={at} step={step} said={step.what === "requested" && step.note === approval.reason ? "" : step.note} />
          ))}
        </ol>
      </Part>
      <Part title="Why approval is needed">
        <ul className={css.policy}>
          <li>
            <bdi>{sourceText(approval)}</bdi>
          </li>
          {approval.policy.map(({ text }, at) => (
            <li key={at}>
              <bdi>{showInvisible(text)}</bdi>
            </li>
          ))}
        </ul>
      </Part>
      <Context workspaceId={approval.workspaceId} name={approval.requesterName} />
    </article>
  );
}

/** Read an approval that this page does not have. Returns why that failed. */
function useOne(workspaceId: string, id: string, missing: boolean): string | null {
  const { decisions, connection } = useSession();
  const { mode } = useStored(connection.view);
  const [problem, setProblem] = useState<string | null>(null);
  useEffect(() => {
    if (!missing || mode === "lost") return;
    decisions.readOne(workspaceId, id).then(
      () => setProblem(null),
      (error: unknown) => setProblem(errorText(error)),
    );
  }, [decisions, workspaceId, id, missing, mode]);
  return problem;
}

function Head({ approval }: { approval: Approval }) {
  const { workspaceId, reason, createdAt, expiresAt, levelDeadline, risk, cost, decided, usedAt } = approval;
  const name = useData((state) => state.workspaces.get(workspaceId)?.name);
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus({ preventScroll: true }), []);
  const open = isPending(approval);
  return (
    <header className={css.head}>
      <p className={css.line}>
        <span>
          {name === undefined ? (
            <bdi className={css.name}>{approval.requesterName}</bdi>
          ) : (
            <Link className={css.name} to={{ view: "chats", workspaceId, messageId: null }}>
              <bdi>{name}</bdi>
            </Link>
          )}{" "}
          {isReview(approval) ? "needs a review of an answer" : "requests approval"}
        </span>
        <Time at={createdAt} className={css.time} />
      </p>
      <h2 className={css.title} ref={heading} tabIndex={-1} dir="auto">
        {actionText(approval)}
      </h2>
      <p className={css.standing}>
        <ApprovalMark state={stateOf(approval)} />
        {open && (
          <>
            <bdi className={css.fact}>{holderText(approval)}</bdi>
            {levelDeadline !== null && <Countdown to={levelDeadline} label="escalates in" over="escalating now" className={css.fact} />}
            <Countdown to={expiresAt} label="expires in" over="expired" className={css.fact} />
          </>
        )}
      </p>
      {decided !== null && (
        <p className={css.fact}>
          {decided.by.kind === "clock" ? (
            "Expired"
          ) : (
            <>
              Decided by <bdi>{partyText(decided.by)}</bdi>
            </>
          )}{" "}
          at <time dateTime={decided.at}>{exact(decided.at)}</time>
          {decided.session !== null && <>, in session {decided.session}</>}
          {decided.edited && ", with edited details"}
          {decided.note !== "" && (
            <>
              : <bdi>{showInvisible(decided.note)}</bdi>
            </>
          )}
        </p>
      )}
      {usedAt !== null && (
        <p className={css.fact}>
          Used at <time dateTime={usedAt}>{exact(usedAt)}</time>. An approval is valid for one use.
        </p>
      )}
      {reason !== "" && (
        <p className={css.reason} dir="auto">
          {showInvisible(reason)}
        </p>
      )}
      {(risk.length > 0 || cost !== null) && (
        <ul className={css.risks} aria-label="Risks and cost">
          {risk.filter((each) => each !== "cost").map((each) => (
            <li key={each} className={css.risk}>
              <Icon name="warning" size={14} />
              <bdi>{showInvisible(each)}</bdi>
            </li>
          ))}
          {cost !== null && <li className={css.cost}>Cost: {cost.toLocaleString("en-GB")}, as the agent states it without a unit</li>}
        </ul>
      )}
    </header>
  );
}

/** The proposed, the edited and the effective details are all kept. */
function Details({ approval }: { approval: Approval }) {
  const { proposed, edited, details } = approval;
  if (isReview(approval)) return <ReviewedAnswer details={details} />;
  if (edited === null) return <Arguments title="Details" details={details} />;
  return (
    <div className={css.both}>
      <Arguments title="Proposed" details={proposed} />
      <Arguments title={prettyDetails(edited) === prettyDetails(details) ? "Edited (in effect)" : "Edited"} details={edited} />
      {prettyDetails(edited) !== prettyDetails(details) && <Arguments title="In effect" details={details} />}
    </div>
  );
}

/** The answer that a review is about, and the task. */
function ReviewedAnswer({ details }: { details: Members }) {
  const text = (name: string): string => (typeof details[name] === "string" ? details[name] : "");
  const files = (Array.isArray(details["files"]) ? details["files"] : []) as readonly Record<string, unknown>[];
  const cut = Number(details["answer_cut"] ?? 0);
  return (
    <>
      <Part title="Task">
        <MessageText text={text("task")} />
        <p>
          <Link to={{ view: "delegation", id: text("delegation_id"), node: null }}>Open the task of {text("delegator")}</Link>
        </p>
      </Part>
      <Part title="Answer">
        {text("answer") === "" ? <p className={css.fact}>The answer has no text.</p> : <MessageText text={text("answer")} />}
        {cut > 0 && <p className={css.problem}>The last {cut.toLocaleString("en-GB")} bytes of the answer are not shown.</p>}
      </Part>
      {files.length > 0 && (
        <Part title="Files">
          <ul className={css.policy}>
            {files.map((file, at) => (
              <li key={at}>
                <a href={String(file["uri"])} download={String(file["name"])}>
                  <bdi>{showInvisible(String(file["name"]))}</bdi>
                </a>{" "}
                <span className={css.fact}>{Number(file["size"]).toLocaleString("en-GB")} bytes</span>
              </li>
            ))}
          </ul>
        </Part>
      )}
    </>
  );
}

function Arguments({ title, details }: { title: string; details: Members }) {
  const nodes = useData((state) => state.orgNodes);
  const agents = namedAgents(details, (id) => nodes.get(id)?.name);
  return (
    <div className={css.part}>
      <h3>{title}</h3>
      {Object.keys(details).length === 0 ? (
        <p className={css.fact}>No details</p>
      ) : (
        <pre className={css.arguments} dir="ltr" tabIndex={0} role="region" aria-label={title}>
          <code>{prettyDetails(details)}</code>
        </pre>
      )}
      {agents.map(({ id, name }) => (
        <p key={id} className={css.fact}>
          <code>{id}</code> is{" "}
          <Link to={{ view: "org", focus: id, panel: "about", filter: "" }}>
            <bdi>{name}</bdi>
          </Link>
        </p>
      ))}
    </div>
  );
}

function Part({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section className={css.part} aria-label={title}>
      <h3>{title}</h3>
      {children}
    </section>
  );
}

/** `said`: the requester's reason, unless it is already shown above. */
function Step({ step, said }: { step: PathStep; said: string }) {
  const { who, did } = stepText(step);
  return (
    <li>
      <span>
        <bdi className={css.name}>{who}</bdi> {did}
      </span>
      <time dateTime={step.at} title={absolute(step.at)} className={css.time}>
        {exact(step.at)}
      </time>
      {step.why !== "" && <bdi className={css.fact}>{showInvisible(step.why)}</bdi>}
      {said !== "" && <bdi className={css.said}>“{showInvisible(said)}”</bdi>}
    </li>
  );
}

/** This many of the last messages give enough context. */
const CONTEXT_MESSAGES = 4;

function Context({ workspaceId, name }: { workspaceId: string; name: string }) {
  const chat = useData((state) => state.chats.get(workspaceId));
  const known = useData((state) => state.workspaces.has(workspaceId));
  const loaded = chat?.loaded ?? false;
  // A removed agent has no chat.
  const { problem, retry } = useNewestPage(workspaceId, loaded || !known);
  if (!known) return null;
  const last = (chat?.lines ?? []).filter(isMessageLine).slice(-CONTEXT_MESSAGES);
  return (
    <Part title="Last messages">
      {last.length === 0 && problem === null && <p className={css.fact}>{loaded ? "No messages in this chat yet." : "Loading…"}</p>}
      {problem !== null && (
        <p role="alert" className={css.fact}>
          Could not load the latest messages: {problem}{" "}
          <Button kind="quiet" onClick={retry}>
            Try again
          </Button>
        </p>
      )}
      <ul className={css.messages}>
        {last.map((line) => (
          <li key={line.id}>
            <bdi className={css.name}>{line.author === "agent" ? name : (line.userName ?? "A person")}</bdi>
            <Time at={line.at} className={css.time} />
            <bdi className={css.said}>{plainLine(line.text)}</bdi>
          </li>
        ))}
      </ul>
      <p>
        <Link className={css.way} to={{ view: "chats", workspaceId, messageId: null }}>
          Open chat
        </Link>
      </p>
    </Part>
  );
}
