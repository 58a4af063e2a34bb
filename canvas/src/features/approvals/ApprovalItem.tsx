/** An approval in the chats of the requesting and the deciding agents: one element from the request to the decision. */

import { memo, Suspense } from "react";
import { ErrorBoundary } from "../../ui/ErrorBoundary";
import { Icon } from "../../ui/Icon";
import { lazyPart } from "../../ui/lazyPart";
import { Link } from "../../ui/Link";
import { Time } from "../../ui/Time";
import { approvalPlace } from "../../core/router";
import { isPending, type Approval } from "../../core/state/approvals";
import { showInvisible } from "../../core/text/invisible";
import css from "../delegations/DelegationItem.module.css";
import message from "../../ui/TimelineItem.module.css";
import { ApprovalMark } from "./ApprovalMark";
import { Countdown } from "./Countdown";
import { actionText, beginning, closedText, holderText, riskText, rowLines, stateOf } from "./texts";

// The first script shows chats; decisions are rare.
const QuickDecision = lazyPart(() => import("./QuickDecision").then((found) => found.QuickDecision));

interface Props {
  approval: Approval;
  /** Since when it is in this chat. */
  at: string;
  tabStop: boolean;
  /** On one line: the request of another agent, which only passed through this chat. */
  brief?: boolean;
}

export const ApprovalItem = memo(function ApprovalItem({ approval, at, tabStop, brief = false }: Props) {
  const { id, workspaceId, requesterName, reason, expiresAt, decided, holder } = approval;
  const risks = riskText(approval);
  const state = stateOf(approval);
  const open = isPending(approval);
  const closed = closedText(approval, Number.NEGATIVE_INFINITY);
  if (brief) {
    return (
      <li className={css.brief} data-message={id} data-approval={id} tabIndex={tabStop ? 0 : -1}>
        <ApprovalMark state={state} />
        <span className={css.briefText} dir="auto">
          <bdi>{requesterName}</bdi> requests approval: {actionText(approval)}
        </span>
        <Link className={css.link} to={approvalPlace({ id, workspaceId }, open ? "open" : "decided")}>
          View request
        </Link>
        <Time at={at} className={css.briefTime} />
      </li>
    );
  }
  return (
    <li className={message.message} data-message={id} data-approval={id} tabIndex={tabStop ? 0 : -1}>
      <span className={`${message.face} ${css.face}`}>
        <Icon name="leave" />
      </span>
      <div className={`${message.body} ${css.body}`}>
        <p className={message.head}>
          <span className={message.author}>
            <bdi>{requesterName}</bdi> requests approval
          </span>
          <Time at={at} className={message.time} />
        </p>
        <div className={`${message.bubble} ${css.bubble}`}>
          <p dir="auto">{actionText(approval)}</p>
          {[showInvisible(reason), risks].map((words) => words !== "" && (
            <p key={words} className={css.task} dir="auto">
              {beginning(words)}
            </p>
          ))}
          {rowLines(approval, SHOWN).map((line, index) => (
            <p key={index} className={css.task} dir="auto">
              {line.slice(0, LETTERS)}
              {line.length > LETTERS && "…"}
            </p>
          ))}
          <p className={css.state}>
            <ApprovalMark state={state} />
            <bdi className={css.detail}>{closed ?? (state === "waiting" && holder.kind !== "workspace" ? "" : holderText(approval))}</bdi>
            {open && <Countdown to={expiresAt} label="expires in" over="expired" className={css.time} />}
          </p>
          {decided !== null && decided.note !== "" && <p dir="auto">“{showInvisible(decided.note)}”</p>}
        </div>
        <ErrorBoundary fallback={null}>
          <Suspense>{open && <QuickDecision approval={approval} />}</Suspense>
        </ErrorBoundary>
        <div className={css.deeds}>
          <Link className={css.link} to={approvalPlace({ id, workspaceId }, open ? "open" : "decided")}>
            View request
          </Link>
        </div>
      </div>
    </li>
  );
});

/** At most this many details; the inbox has all of them. */
const SHOWN = 3;
const LETTERS = 200;
