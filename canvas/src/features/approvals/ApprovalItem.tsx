/** An approval in the chats of the requesting and the deciding agents: one element from the request to the decision. */

import { memo } from "react";
import { Icon } from "../../ui/Icon";
import { Link } from "../../ui/Link";
import { Time } from "../../ui/Time";
import { isPending, type Approval } from "../../core/state/approvals";
import { showInvisible } from "../../core/text/invisible";
import css from "../delegations/DelegationItem.module.css";
import message from "../../ui/TimelineItem.module.css";
import { ApprovalMark } from "./ApprovalMark";
import { Countdown } from "./Countdown";
import { closedText, detailLines, holderText, stateOf } from "./texts";

interface Props {
  approval: Approval;
  /** Since when it is in this chat. */
  at: string;
  tabStop: boolean;
  /** On one line: the request of another agent, which only passed through this chat. */
  brief?: boolean;
}

export const ApprovalItem = memo(function ApprovalItem({ approval, at, tabStop, brief = false }: Props) {
  const { id, workspaceId, requesterName, action, details, expiresAt, decided, holder } = approval;
  const state = stateOf(approval);
  const open = isPending(approval);
  const closed = closedText(approval, Number.NEGATIVE_INFINITY);
  if (brief) {
    return (
      <li className={css.brief} data-message={id} data-approval={id} tabIndex={tabStop ? 0 : -1}>
        <ApprovalMark state={state} />
        <span className={css.briefText} dir="auto">
          <bdi>{requesterName}</bdi> requests approval: {showInvisible(action)}
        </span>
        <Link className={css.link} to={{ view: "inbox", list: open ? "open" : "decided", open: { id, workspaceId } }}>
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
          <p dir="auto">{showInvisible(action)}</p>
          {detailLines(details, SHOWN).map((line, index) => (
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
        <div className={css.deeds}>
          <Link className={css.link} to={{ view: "inbox", list: open ? "open" : "decided", open: { id, workspaceId } }}>
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
