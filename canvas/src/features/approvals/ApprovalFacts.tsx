/** What an approval is about, as far as it fits a row: action, reason, risks and the first details. */

import { Icon } from "../../ui/Icon";
import type { Approval } from "../../core/state/approvals";
import { showInvisible } from "../../core/text/invisible";
import css from "./Inbox.module.css";
import { beginning, fitsRow, riskText, rowLines } from "./texts";

/** At most this many details; the open request has all of them. */
const SHOWN = 3;

export function ApprovalFacts({ approval }: { approval: Approval }) {
  const { reason } = approval;
  const risks = riskText(approval);
  return (
    <>
      {reason !== "" && <bdi className={css.fact}>{beginning(showInvisible(reason))}</bdi>}
      {risks !== "" && (
        <span className={css.careful}>
          <Icon name="warning" size={12} />
          <bdi>{risks}</bdi>
        </span>
      )}
      {rowLines(approval, SHOWN).map((line, at) => (
        <bdi key={at} className={css.fact}>
          {beginning(line)}
        </bdi>
      ))}
      {!fitsRow(approval) && <span className={css.fact}>Open the request to see all details.</span>}
    </>
  );
}
