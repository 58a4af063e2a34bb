/** The checks of an answer, each with what it found in each answer. */

import { useState } from "react";
import { useData } from "../../core/app";
import { INBOX } from "../../core/router";
import { Link } from "../../ui/Link";
import { showInvisible } from "../../core/text/invisible";
import { exact } from "../../core/text/time";
import { plural } from "../../core/text/strings";
import type { AcceptanceReport, CheckEvidence, PendingReview } from "../../core/wire";
import { useDelegationDetail } from "./useDelegation";
import css from "./Checks.module.css";

/** `workspaceId`: of the target. */
export function Checks({ acceptance, workspaceId }: { acceptance: AcceptanceReport; workspaceId: string }) {
  return (
    <ol className={css.checks}>
      {acceptance.sentences.map((sentence, at) => (
        <li key={at}>
          <bdi className={css.text}>{sentence}</bdi>
          <ul>
            {acceptance.evidence.filter((each) => each.check === at + 1).map((each) => <Evidence key={each.answer} evidence={each} />)}
            {acceptance.commands.filter((each) => each.check === at + 1).map((each) => <li key={each.name}>Waits for the runner</li>)}
            {acceptance.reviews.filter((each) => each.check === at + 1).map((each) => <Review key={each.approval_id} review={each} workspaceId={workspaceId} />)}
          </ul>
        </li>
      ))}
    </ol>
  );
}

/** A review that the answer waits for. */
function Review({ review, workspaceId }: { review: PendingReview; workspaceId: string }) {
  const name = useData((state) => state.workspaces.get(review.reviewer_id)?.name) ?? (review.reviewer_id === "" ? "a person" : "another agent");
  return (
    <li>
      <Link to={{ ...INBOX, open: { id: review.approval_id, workspaceId } }}>
        Waits for a review by <bdi>{name}</bdi>
      </Link>
    </li>
  );
}

/** What a check found. A program wrote some of the texts, which may be long. */
function Evidence({ evidence }: { evidence: CheckEvidence }) {
  const { file, size, sha256, at, by, output } = evidence;
  const { exit_code: exitCode, seconds } = evidence;
  const ended = exitCode !== undefined && exitCode !== null && `exit code ${exitCode}`;
  const took = seconds !== undefined && seconds !== null && `${seconds} s`;
  const facts = [file, size !== undefined && size !== null && plural(size, "byte"), ended, took, at && exact(at)].filter((each) => each);
  return (
    <li data-outcome={evidence.outcome}>
      Answer {evidence.answer}: {evidence.outcome === "passed" ? "passed" : "failed"}
      {by && (
        <>
          {" "}
          by <bdi>{by}</bdi>
        </>
      )}
      {evidence.detail && (
        <bdi className={css.text} tabIndex={evidence.detail.length > LONG ? 0 : undefined}>
          {evidence.detail}
        </bdi>
      )}
      {output && (
        <pre className={css.text} dir="ltr" tabIndex={0} role="region" aria-label="End of the output">
          <code>{showInvisible(output)}</code>
        </pre>
      )}
      {facts.length > 0 && (
        <span className={css.quiet} title={sha256 && `SHA-256: ${sha256}`}>
          {facts.map((each, index) => (
            <bdi key={index}>{each}</bdi>
          ))}
        </span>
      )}
    </li>
  );
}

/** Longer texts may scroll, also by keys. */
const LONG = 400;

/** The checks of a delegation that is listed among others: read when they are opened, and again when it changes. */
export function CheckDetails({ id }: { id: string }) {
  const [isOpen, setOpen] = useState(false);
  const { full, problem } = useDelegationDetail(isOpen ? id : null);
  return (
    <details className={css.details} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Checks of the answer</summary>
      {problem !== null && <p role="alert">{problem}</p>}
      {full !== null && full.acceptance !== null && <Checks acceptance={full.acceptance} workspaceId={full.delegation.target_id} />}
    </details>
  );
}
