/** The decision form of an approval. A decision is held for five seconds; then it is final. */

import { useEffect, useId, useRef, useState, type FocusEvent, type FormEvent, type ReactNode } from "react";
import { useSession } from "../../core/app";
import { CodeField } from "../instructions/CodeField";
import type { PendingDecision } from "../../core/session/undoableDecisions";
import { Button } from "../../ui/Button";
import { useLayer } from "../../ui/keyboard";
import { useSeconds } from "../../ui/useSeconds";
import { isPending, type Approval, type Verdict } from "../../core/state/approvals";
import type { Members } from "../../core/state/json";
import { useStored } from "../../core/store/store";
import { showInvisible } from "../../core/text/invisible";
import { useServerSeconds } from "./Countdown";
import { readDetails } from "./detailsInput";
import css from "./Inbox.module.css";
import { closedText, closingText, STATUS_TEXTS, isReview, isRounded, partyText, prettyDetails } from "./texts";

/** The open input: a reason, a question, or edited details. */
type Form = "deny" | "more_info" | "edit" | null;

export function DecisionForm({ approval }: { approval: Approval }) {
  const { decisions, canSend } = useSession();
  const held = useStored(decisions.pending).get(approval.id);
  const [form, setForm] = useState<Form>(null);
  const [read, setRead] = useState(approval.revision);
  const closed = closedText(approval, useServerSeconds(isPending(approval)));
  const answer = (verdict: Verdict, note = "", details: Members | null = null): void => {
    setForm(null);
    const input = { verdict, note, details };
    decisions.decide([approval], input, `${STATUS_TEXTS[verdict]}: ${showInvisible(approval.action)}. ${closingText([approval], input)}`, Date.now());
  };
  const group = useKeptFocus(`${held?.phase ?? ""} ${form ?? ""} ${closed !== null}`);
  const framed = (label: string, inside: ReactNode): ReactNode => (
    <div className={css.answers} role="group" aria-label={label} ref={group} tabIndex={-1}>
      {inside}
    </div>
  );
  if (held !== undefined) return framed("Your decision", <PendingNotice held={held} closed={closed} />);
  if (!canSend) return <p className={css.fact}>{closed ?? "Only operators and owners can decide this request."}</p>;
  if (closed === null && approval.revision !== read && (form === null || form === "edit")) return framed("Decision", <Changed onRead={() => setRead(approval.revision)} />);
  if (form !== null && closed === null) {
    const common = { approval, onCancel: () => setForm(null) };
    if (form === "edit") return framed("Decision", <EditForm key={read} {...common} onDone={(details, note) => answer("approve", note, details)} />);
    return framed("Decision", <NoteForm {...common} about={form} onDone={(note) => answer(form, note)} />);
  }
  const { holder, status, forPerson } = approval;
  const off = closed !== null;
  const rounded = isRounded(approval.details);
  return framed(
    "Decision",
    <>
      <div className={css.deeds}>
        <Button kind="primary" icon="check" disabled={off} onClick={() => answer("approve")}>
          Approve
        </Button>
        {!isReview(approval) && (
          <Button disabled={off || rounded} onClick={() => setForm("edit")}>
            Approve with edits…
          </Button>
        )}
        <Button icon="close" disabled={off} onClick={() => setForm("deny")}>
          Deny…
        </Button>
        <Button disabled={off || status !== "pending"} onClick={() => setForm("more_info")}>
          Ask a question…
        </Button>
        {holder.kind === "workspace" && (
          <Button disabled={off || status !== "pending"} onClick={() => answer("escalate")}>
            {forPerson ? "Leave to a person" : "Escalate"}
          </Button>
        )}
      </div>
      {off && (
        <p role="status" className={css.closed}>
          <bdi>{closed}</bdi> No decision is needed.
        </p>
      )}
      {!off && holder.kind === "workspace" && (
        <p className={css.fact}>
          <bdi>{partyText(holder)}</bdi> can decide too. The first decision counts.
        </p>
      )}
      {!off && rounded && !isReview(approval) && (
        <p className={css.problem}>
          The details contain a number that is too long for a browser to show exactly, so they cannot be edited here. Run <code>molecule approvals show</code> to see the exact number.
        </p>
      )}
    </>,
  );
}

/** The details have changed since they were read; approving needs a confirmation that they were read again. */
export function Changed({ onRead }: { onRead: () => void }) {
  return (
    <>
      <p role="alert" className={css.closed}>
        This request changed while it was open. Review it again before you decide.
      </p>
      <div className={css.deeds}>
        <Button onClick={onRead}>Mark as reviewed</Button>
      </div>
    </>
  );
}

/** When the buttons of the group change, the focus stays in the group. */
function useKeptFocus(what: string): React.RefObject<HTMLDivElement | null> {
  const group = useRef<HTMLDivElement>(null);
  const before = useRef(what);
  useEffect(() => {
    if (before.current === what) return;
    before.current = what;
    if (document.activeElement === document.body) group.current?.focus({ preventScroll: true });
  }, [what]);
  return group;
}

/** A decision of this page that the server has not received or not accepted. */
export function PendingNotice({ held, closed }: { held: PendingDecision; closed: string | null }) {
  const { decisions } = useSession();
  const { approval, answer, until, phase, problem } = held;
  const left = Math.max(0, Math.floor((until - useSeconds(phase === "held")) / 1_000));
  const drop = (): void => decisions.cancel([approval.id]);
  return (
    <>
      <p>
        {phase === "held" && (
          <>
            <strong>{STATUS_TEXTS[answer.verdict]}</strong>, not sent yet. Sending in {left} s. {closingText([approval], answer)}
          </>
        )}
        {phase === "sending" && <strong>Sending…</strong>}
        {phase === "unsent" && <strong>Your decision was not sent.</strong>}
        {phase === "refused" && <strong>Your decision was rejected.</strong>}
      </p>
      {problem !== null && (
        <p role="alert" className={css.problem}>
          {problem} {closed !== null && <bdi>{closed}</bdi>}
        </p>
      )}
      <div className={css.deeds}>
        {phase === "held" && <Button onClick={drop}>Cancel sending</Button>}
        {phase === "unsent" && (
          <Button icon="again" onClick={() => void decisions.sendAgain([approval.id])}>
            Send again
          </Button>
        )}
        {(phase === "unsent" || phase === "refused") && <Button onClick={drop}>{phase === "unsent" ? "Discard" : "Review again"}</Button>}
      </div>
    </>
  );
}

interface FormProps {
  approval: Approval;
  onCancel: () => void;
}

function NoteForm({ about, approval, onDone, onCancel }: FormProps & { about: "deny" | "more_info"; onDone: (words: string) => void }) {
  const [words, setWords] = useState("");
  const id = useId();
  const asks = about === "more_info";
  const isNeeded = asks || isReview(approval);
  useLayer(onCancel);
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (!isNeeded || words.trim() !== "") onDone(words.trim());
  };
  return (
    <form className={css.form} onSubmit={submit} aria-label={asks ? "Ask a question" : "Deny"}>
      <label htmlFor={id}>{asks ? "Your question" : "Reason"}</label>
      <textarea id={id} rows={3} dir="auto" autoFocus value={words} aria-describedby={`${id}hint`} onFocus={reveal} onChange={(event) => setWords(event.target.value)} />
      <p id={`${id}hint`} className={css.fact}>
        <bdi>{approval.requesterName}</bdi> {asks ? "receives this question. The request returns with the answer." : isNeeded ? "receives this reason." : "receives this reason. Optional."}
      </p>
      <div className={css.deeds}>
        <Button kind="primary" type="submit" disabled={isNeeded && words.trim() === ""}>
          {asks ? "Ask" : "Deny"}
        </Button>
        <Button onClick={onCancel}>Cancel</Button>
      </div>
    </form>
  );
}

function EditForm({ approval, onDone, onCancel }: FormProps & { onDone: (details: Members, note: string) => void }) {
  const begun = prettyDetails(approval.details);
  const [words, setWords] = useState(begun);
  const [note, setNote] = useState("");
  const id = useId();
  useLayer(onCancel);
  const { details, marks } = readDetails(words, approval.proposed);
  const same = details !== null && JSON.stringify(details) === JSON.stringify(approval.details);
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (details !== null && !same) onDone(details, note.trim());
  };
  return (
    <form className={css.form} onSubmit={submit} aria-label="Approve with edits">
      <h3>Details to approve</h3>
      <CodeField label="Details to approve" words={words} marks={marks} onChange={setWords} />
      <label htmlFor={id}>Note</label>
      <textarea id={id} rows={2} dir="auto" value={note} onFocus={reveal} onChange={(event) => setNote(event.target.value)} />
      <p className={css.fact}>
        <bdi>{approval.requesterName}</bdi> may do exactly this instead of what it proposed. The original proposal is kept.
      </p>
      <div className={css.deeds}>
        <Button kind="primary" type="submit" disabled={details === null || same}>
          Approve edited details
        </Button>
        <Button onClick={onCancel}>Cancel</Button>
        {same && <span className={css.fact}>No changes yet.</span>}
      </div>
    </form>
  );
}

/** Browsers scroll only the caret's line into view. */
function reveal(event: FocusEvent<HTMLElement>): void {
  event.currentTarget.scrollIntoView({ block: "nearest" });
}
