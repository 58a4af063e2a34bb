/** The decision of an approval in a list or in a chat, where all that it is about is shown. Others are decided in their view. */

import { useState } from "react";
import { useSession } from "../../core/app";
import { Button } from "../../ui/Button";
import type { Approval } from "../../core/state/approvals";
import { useStored } from "../../core/store/store";
import { useServerSeconds } from "./Countdown";
import { Changed, PendingNotice } from "./DecisionForm";
import css from "./Inbox.module.css";
import { actionText, closedText, closingText, fitsRow, isReview, STATUS_TEXTS } from "./texts";

export function QuickDecision({ approval }: { approval: Approval }) {
  const { decisions, canSend } = useSession();
  const held = useStored(decisions.pending).get(approval.id);
  const [read, setRead] = useState(approval.revision);
  const mayDecide = canSend && approval.status === "pending" && fitsRow(approval) && !isReview(approval);
  const closed = closedText(approval, useServerSeconds(mayDecide || held !== undefined));
  if (held !== undefined) {
    return (
      <div className={css.quick} role="group" aria-label="Your decision">
        <PendingNotice held={held} closed={closed} />
      </div>
    );
  }
  if (!mayDecide || closed !== null) return null;
  const decide = (verdict: "approve" | "deny"): void => {
    const input = { verdict, note: "", details: null };
    decisions.decide([approval], input, `${STATUS_TEXTS[verdict]}: ${actionText(approval)}. ${closingText([approval], input)}`, Date.now());
  };
  const about = (
    <>
      {" "}
      <span className="visually-hidden">
        “{actionText(approval)}” from {approval.requesterName}
      </span>
    </>
  );
  return (
    <div className={css.quick} role="group" aria-label="Decision">
      {approval.revision !== read ? (
        <Changed onRead={() => setRead(approval.revision)} />
      ) : (
        <div className={css.deeds}>
          <Button kind="primary" icon="check" onClick={() => decide("approve")}>
            <span>Approve{about}</span>
          </Button>
          <Button icon="close" onClick={() => decide("deny")}>
            <span>Deny{about}</span>
          </Button>
        </div>
      )}
    </div>
  );
}
