/** A delegation in the chat of the delegating agent: one element from sending to the answer, rendered the same from history
 * and from live events. */

import { memo, useState, type ReactNode } from "react";
import { useApp, useData, useSession } from "../../core/app";
import { Button } from "../../ui/Button";
import { CopyButton } from "../../ui/CopyButton";
import { Elapsed } from "../../ui/Elapsed";
import { Icon } from "../../ui/Icon";
import { Link } from "../../ui/Link";
import { MessageText } from "../../ui/MessageText";
import { useNow } from "../../ui/useNow";
import { Time } from "../../ui/Time";
import { CheckDetails } from "./Checks";
import { DelegationMark } from "./DelegationMark";
import { hrefOf } from "../../core/router";
import { delegationState, isOpen, shownTask, type Delegation, type Progress } from "../../core/state/delegations";
import { queues, retries } from "../../core/state/delegationLists";
import css from "./DelegationItem.module.css";
import message from "../../ui/TimelineItem.module.css";
import { ActionProblem, useAction } from "../../ui/useAction";
import { cancelText, failedText, progressText, stateDetail } from "./texts";

interface Props {
  delegation: Delegation;
  sourceName: string;
  tabStop: boolean;
  marked: boolean;
  /** Belongs to the group above it. */
  inGroup?: boolean;
}

export const DelegationItem = memo(function DelegationItem({ delegation, sourceName, tabStop, marked, inGroup = false }: Props) {
  const { id, task, createdAt, settledAt } = delegation;
  return (
    <li className={`${message.message} ${marked ? message.marked : ""} ${inGroup ? css.inGroup : ""}`} data-message={id} data-delegation={id} tabIndex={tabStop ? 0 : -1}>
      <span className={`${message.face} ${css.face}`}>
        <Icon name="send" />
      </span>
      <div className={`${message.body} ${css.body}`}>
        <p className={message.head}>
          <span className={message.author}>
            <bdi>{sourceName}</bdi> delegated to <PeerLink id={delegation.targetId} />
          </span>
          <Time at={createdAt} className={message.time} />
        </p>
        <div className={`${message.bubble} ${css.bubble}`}>
          <p className={css.task} dir="auto">
            {shownTask(task)}
          </p>
          <p className={css.state}>
            <StateText delegation={delegation} />
            <Elapsed from={createdAt} to={settledAt} className={css.time} />
          </p>
          {isOpen(delegation) && delegation.progress !== null && <ProgressLine progress={delegation.progress} />}
          {delegation.status === "completed" && <Answer delegation={delegation} />}
          {(delegation.status === "failed" || delegation.status === "cancelled") && <Failure delegation={delegation} />}
          {wasChecked(delegation) && <CheckDetails id={id} />}
        </div>
        <DelegationActions delegation={delegation} />
      </div>
    </li>
  );
});

/** Whether it is known to have checks. An open one says so by its phase, once there is something to see. */
function wasChecked({ phase, verified, reason }: Delegation): boolean {
  return phase === "checking" || phase === "needs_work" || verified === true || reason === "unproven";
}

export function PeerLink({ id }: { id: string }) {
  const name = useData((state) => state.workspaces.get(id)?.name);
  if (name === undefined) return <>a removed agent</>;
  return (
    <Link to={{ view: "org", focus: id, panel: "chat", filter: "" }} className={css.peer}>
      <bdi>{name}</bdi>
    </Link>
  );
}

export function StateText({ delegation }: { delegation: Delegation }) {
  const now = useNow();
  const stuckSeconds = useData((state) => state.stuckSeconds);
  const target = useData((state) => state.workspaces.get(delegation.targetId));
  const ahead = useData((state) => queues(state.delegations).get(delegation.id) ?? null);
  const state = delegationState(delegation, target, now, stuckSeconds);
  const detail = stateDetail(state, { delegation, target, ahead, now });
  return (
    <>
      <DelegationMark state={state} />
      {detail !== null && <bdi className={css.detail}>{detail}</bdi>}
    </>
  );
}

export function ProgressLine({ progress }: { progress: Progress }) {
  const words = progressText(progress);
  if (words === "") return null;
  return (
    <div className={css.progress}>
      <p dir="auto">{words}</p>
      {progress.percent !== null && <progress max={100} value={progress.percent} aria-label="Task progress" className={css.bar} />}
    </div>
  );
}

/** The beginning of the answer; the rest is read on request. */
export function Answer({ delegation }: { delegation: Pick<Delegation, "id" | "reply" | "replyComplete"> }) {
  const session = useSession();
  const action = useAction();
  const { id, reply, replyComplete } = delegation;
  if (!reply) return <p className={css.none}>The answer is empty.</p>;
  return (
    <div className={css.answer}>
      <MessageText text={replyComplete ? reply : `${reply}…`} />
      {!replyComplete && (
        <Button kind="quiet" disabled={action.busy} onClick={() => action.run(() => session.readReply(id), "Full answer shown")}>
          Show all
        </Button>
      )}
      <ActionProblem action={action} className={css.problem} />
    </div>
  );
}

export function Failure({ delegation }: { delegation: Pick<Delegation, "status" | "error" | "reason" | "advice"> }) {
  return (
    <div className={css.failure}>
      <p className={delegation.status === "cancelled" ? undefined : css.error} dir="auto">
        {failedText(delegation)}
      </p>
      {delegation.advice && <p dir="auto">{delegation.advice}</p>}
    </div>
  );
}

/** Actions of a person on a delegation, and links to its details. */
export function DelegationActions({ delegation, inView = false, children }: { delegation: Delegation; inView?: boolean; children?: ReactNode }) {
  const { id, sourceId, retryOf, status } = delegation;
  const session = useSession();
  const { router } = useApp();
  const action = useAction();
  const [next, setNext] = useState<string | null>(null);
  const again = useData((state) => retries(state.delegations).get(id)) ?? next;
  const failed = status === "failed" || status === "cancelled";
  const retry = async (): Promise<void> => {
    const made = await session.retryDelegation({ id, sourceId });
    setNext(made);
    if (inView) router.go({ view: "delegation", id: made, node: null });
  };
  return (
    <div className={css.deeds}>
      {isOpen(delegation) && session.canSend && (
        <Button icon="close" disabled={action.busy} onClick={() => action.run(() => session.cancelDelegation({ id, sourceId }), cancelText)}>
          Cancel
        </Button>
      )}
      {failed && again === null && session.canSend && (
        <Button icon="again" disabled={action.busy} onClick={() => action.run(retry, "Delegated again")}>
          Retry
        </Button>
      )}
      {children}
      {!inView && (
        <Link to={{ view: "delegation", id, node: null }} className={css.link}>
          View task
        </Link>
      )}
      {failed && (
        <Link to={{ view: "org", focus: delegation.targetId, panel: "about", filter: "" }} className={css.link}>
          View agent
        </Link>
      )}
      {retryOf !== null && (
        <Link to={{ view: "delegation", id: retryOf, node: null }} className={css.link}>
          Previous attempt
        </Link>
      )}
      {again !== null && (
        <Link to={{ view: "delegation", id: again, node: null }} className={css.link}>
          Next attempt
        </Link>
      )}
      {!inView && <CopyButtons delegation={delegation} />}
      <ActionProblem action={action} className={css.problem} />
    </div>
  );
}

function CopyButtons({ delegation }: { delegation: Delegation }) {
  const { id, sourceId, task, reply } = delegation;
  return (
    <span className={css.copies}>
      <CopyButton text={reply ?? task} label={reply === null ? "Copy task" : "Copy answer"} />
      <CopyButton text={location.origin + hrefOf({ view: "chats", workspaceId: sourceId, messageId: id })} label="Copy link to task" icon="link" />
    </span>
  );
}
