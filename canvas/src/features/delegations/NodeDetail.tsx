/** One delegation in full: source, target, task, state, the answer or the error, and its timeline. */

import { useEffect } from "react";
import { useData, useSession } from "../../core/app";
import { Elapsed } from "../../ui/Elapsed";
import { MessageText } from "../../ui/MessageText";
import { Time } from "../../ui/Time";
import { isOpen, type Delegation } from "../../core/state/delegations";
import { exact } from "../../core/text/time";
import type { DelegationDetail, DelegationScope, DelegationTimelineEntry } from "../../core/wire";
import { Checks } from "./Checks";
import { Answer, DelegationActions, Failure, PeerLink, ProgressLine, StateText } from "./DelegationItem";
import { useDelegation } from "./useDelegation";
import { scopeLines, shownTimeline } from "./texts";
import css from "./DelegationView.module.css";

export function NodeDetail({ full }: { full: DelegationDetail }) {
  const delegation = useDelegation(full);
  const { sourceId, targetId, createdAt, settledAt, deadlineAt, progress } = delegation;
  const failed = delegation.status === "failed" || delegation.status === "cancelled";
  const { seenProblems } = useSession();
  useEffect(() => {
    if (failed) seenProblems.add(delegation.id);
  }, [seenProblems, failed, delegation.id]);
  return (
    <article className={css.node} data-delegation={delegation.id} aria-label="Task details">
      <h2 className={css.title}>
        <PeerLink id={sourceId} /> delegated to <PeerLink id={targetId} />
      </h2>
      <p className={css.state}>
        <StateText delegation={delegation} />
        <Elapsed from={createdAt} to={settledAt} className={css.quiet} />
        <Time at={createdAt} className={css.quiet} />
        {isOpen(delegation) && <Deadline at={deadlineAt} />}
      </p>
      {isOpen(delegation) && progress !== null && <ProgressLine progress={progress} />}
      <Part title="Task">
        <MessageText text={full.task} />
      </Part>
      {full.may !== null && (
        <Part title="May">
          <Scope may={full.may} />
        </Part>
      )}
      {delegation.status === "completed" && (
        <Part title="Answer">
          <FullAnswer full={full} delegation={delegation} />
          {full.delegation.status === "completed" && !full.delegation.recorded && (
            <p className={css.quiet}>{full.delegation.verified ? "Verified: it passed all checks." : "Answered, not verified."}</p>
          )}
        </Part>
      )}
      {full.acceptance !== null && (
        <Part title="Checks">
          <Checks acceptance={full.acceptance} workspaceId={targetId} />
        </Part>
      )}
      {failed && (
        <Part title="Why it ended">
          <Failure delegation={delegation} />
        </Part>
      )}
      <DelegationActions delegation={delegation} inView />
      <Timeline facts={full.timeline} earlier={full.earlier} />
    </article>
  );
}

/** The final event contains the beginning of the answer; the rest is read afterwards. */
function FullAnswer({ full, delegation }: { full: DelegationDetail; delegation: Delegation }) {
  if (full.result === null) return <Answer delegation={delegation} />;
  return full.result === "" ? <p className={css.quiet}>The answer is empty.</p> : <MessageText text={full.result} />;
}

/** What the task may do at most. */
function Scope({ may }: { may: DelegationScope }) {
  const names = useData((state) => (may.peers ?? []).map((id) => state.workspaces.get(id)?.name ?? id).join(", "));
  return (
    <ul className={css.facts}>
      {scopeLines(may, names).map((line) => (
        <li key={line}>
          <bdi>{line}</bdi>
        </li>
      ))}
    </ul>
  );
}

function Deadline({ at }: { at: string }) {
  return at === "" ? null : <span className={css.quiet}>Deadline {exact(at)}</span>;
}

function Part({ title, children }: { title: string; children: React.ReactNode }) {
  return (
    <section className={css.part} aria-label={title}>
      <h3>{title}</h3>
      {children}
    </section>
  );
}

const EVENT_TEXTS: Readonly<Record<string, string>> = {
  begun: "Delegated",
  sent: "Sent",
  stored: "In inbox",
  parked: "Waiting until the agent is available",
  claimed: "Picked up",
  returned: "Returned to the inbox",
  busy: "Agent busy",
  retry: "Sending failed, retrying",
  accepted: "Accepted",
  unsure: "Sent, no response",
  progress: "Progress reported",
  answered: "Answered",
  submitted: "Answered, checking",
  proven: "Passed all checks",
  needs_work: "Needs work",
  unproven: "Failed a check",
  declined: "Declined",
  gave_up: "Abandoned",
  expired: "Deadline passed",
  cancelled: "Cancelled",
  target_gone: "Agent removed",
  reported_done: "Reported as done",
  reported_failed: "Reported as failed",
  unsure_too_long: "No response for too long",
};

function Timeline({ facts, earlier }: { facts: readonly DelegationTimelineEntry[]; earlier: number }) {
  if (facts.length === 0) return null;
  return (
    <Part title="History">
      {earlier > 0 && <p className={css.quiet}>Only the latest entries are shown; {earlier} earlier ones are omitted.</p>}
      <ol className={css.facts}>
        {shownTimeline(facts).map((fact, at) => (
          <li key={at}>
            <time dateTime={fact.at} className={css.quiet}>
              {exact(fact.at)}
            </time>
            <span>
              {EVENT_TEXTS[fact.fact.toLowerCase()] ?? fact.fact}
              {fact.attempt > 1 && `, attempt ${fact.attempt}`}
              {fact.late && " (too late, ignored)"}
              {fact.detail && (
                <>
                  : <bdi>{fact.detail}</bdi>
                </>
              )}
            </span>
          </li>
        ))}
      </ol>
    </Part>
  );
}

/** The current name of an agent, or its name when this was read. */
export function useNameOf(id: string | null, before: string | null): string {
  return useData((state) => state.workspaces.get(id ?? "")?.name) ?? before ?? "An agent";
}
