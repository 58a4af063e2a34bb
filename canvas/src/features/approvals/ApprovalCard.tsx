/** An approval in the list of everything that waits: decided here, or opened. */

import { Link } from "../../ui/Link";
import { Time } from "../../ui/Time";
import { INBOX } from "../../core/router";
import { isPending, type Approval } from "../../core/state/approvals";
import { useSession } from "../../core/app";
import { useStored } from "../../core/store/store";
import { ApprovalFacts } from "./ApprovalFacts";
import { ApprovalMark } from "./ApprovalMark";
import { Countdown } from "./Countdown";
import css from "./Inbox.module.css";
import { QuickDecision } from "./QuickDecision";
import { actionText, pendingText, stateOf } from "./texts";

/** `decides`: it can be decided here. */
export function ApprovalCard({ approval, since, decides }: { approval: Approval; since: string; decides: boolean }) {
  const { decisions } = useSession();
  const held = useStored(decisions.pending).get(approval.id);
  const { id, workspaceId, requesterName, expiresAt } = approval;
  return (
    <>
      <p className={css.line}>
        <bdi className={css.name}>{requesterName}</bdi>
        <Time at={since} className={css.time} />
      </p>
      <Link className={css.open} to={{ ...INBOX, open: { id, workspaceId } }}>
        <bdi>{actionText(approval)}</bdi>
      </Link>
      <ApprovalFacts approval={approval} />
      <p className={css.standing}>
        <ApprovalMark state={stateOf(approval)} />
        {held !== undefined && !decides && <strong className={css.fact}>{pendingText(held)}</strong>}
        {isPending(approval) && <Countdown to={expiresAt} label="expires in" over="expired" className={css.time} />}
      </p>
      {decides && <QuickDecision approval={approval} />}
    </>
  );
}
