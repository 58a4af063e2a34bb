/** One decision on several approvals: exactly those that were selected when the dialog opened. */

import { useId, useState } from "react";
import { useData, useSession } from "../../core/app";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { Icon } from "../../ui/Icon";
import type { Approval } from "../../core/state/approvals";
import { plural } from "../../core/text/strings";
import css from "./Inbox.module.css";
import { closedText, actionText, closingText, riskText, rowLines } from "./texts";

type Verdict = "approve" | "deny";

export function BatchDecision({ chosen, onClear, onAnswered }: { chosen: readonly Approval[]; onClear: () => void; onAnswered: () => void }) {
  const [asked, setAsked] = useState<{ verdict: Verdict; about: readonly Approval[] } | null>(null);
  return (
    <div className={css.batch} role="group" aria-label="Selected requests">
      <span>{chosen.length} selected</span>
      <Button icon="check" onClick={() => setAsked({ verdict: "approve", about: chosen })}>
        Approve…
      </Button>
      <Button icon="close" onClick={() => setAsked({ verdict: "deny", about: chosen })}>
        Deny…
      </Button>
      <Button kind="quiet" onClick={onClear}>
        Clear selection
      </Button>
      {asked !== null && (
        <Confirm
          {...asked}
          onClose={() => setAsked(null)}
          onDone={() => {
            setAsked(null);
            onAnswered();
          }}
        />
      )}
    </div>
  );
}

interface Props {
  verdict: Verdict;
  /** As they were when the dialog opened. */
  about: readonly Approval[];
  onClose: () => void;
  onDone: () => void;
}

function Confirm({ verdict, about, onClose, onDone }: Props) {
  const { decisions } = useSession();
  const id = useId();
  const [note, setNote] = useState("");
  const approvals = useData((state) => state.approvals);
  const left = about.filter((each) => obsoleteText(each, approvals.get(each.id)) === null);
  const verb = verdict === "approve" ? "Approve" : "Deny";
  const confirm = (): void => {
    const input = { verdict, note: note.trim(), details: null };
    const words = `${plural(left.length, "request")} ${verdict === "approve" ? "approved" : "denied"}. ${closingText(left, input)}`;
    decisions.decide(left, input, words, Date.now());
    onDone();
  };
  return (
    <Dialog label={`${verb} ${plural(left.length, "request")}?`} onClose={onClose}>
      <div className={css.confirm}>
        <ul className={css.confirmed}>
          {about.map((each) => {
            const lost = obsoleteText(each, approvals.get(each.id));
            return (
              <li key={each.id}>
                <p>
                  <bdi className={css.name}>{each.requesterName}</bdi>: <bdi>{actionText(each)}</bdi>
                </p>
                {riskText(each) !== "" && (
                  <p className={css.careful}>
                    <Icon name="warning" size={12} />
                    <bdi>{riskText(each)}</bdi>
                  </p>
                )}
                {rowLines(each).map((line, at) => (
                  <p key={at} className={css.fact}>
                    <bdi>{line}</bdi>
                  </p>
                ))}
                {lost !== null && <p className={css.problem}>No longer included: {lost}</p>}
              </li>
            );
          })}
        </ul>
        <label htmlFor={id}>{verdict === "deny" ? "Reason" : "Note"}</label>
        <textarea id={id} rows={2} dir="auto" value={note} onChange={(event) => setNote(event.target.value)} aria-describedby={`${id}hint`} />
        <p id={`${id}hint`} className={css.fact}>
          Each agent receives this text. The decision applies only to the requests listed here; new requests are not included.
        </p>
        <div className={css.deeds}>
          <Button kind="primary" disabled={left.length === 0} onClick={confirm}>
            {verb} {plural(left.length, "request")}
          </Button>
          <Button onClick={onClose}>Cancel</Button>
        </div>
      </div>
    </Dialog>
  );
}

/** Why one is excluded from the batch after all. */
function obsoleteText(shown: Approval, now: Approval | undefined): string | null {
  if (now === undefined) return "it is no longer open.";
  if (now.actionHash !== shown.actionHash) return "it has changed.";
  return closedText(now, Number.NEGATIVE_INFINITY);
}
