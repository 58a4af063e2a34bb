/** The created workspace: its token, the setup steps, and the connection progress of its agent. */

import { useEffect, useMemo, useRef, useState } from "react";
import { useApp, useData, useSession } from "../../core/app";
import { Button } from "../../ui/Button";
import { CopyButton } from "../../ui/CopyButton";
import { Icon } from "../../ui/Icon";
import { Link } from "../../ui/Link";
import { useNow } from "../../ui/useNow";
import type { CreatedWorkspace } from "../../core/api/api";
import { connectionSteps, STALLED_MS, hasTestMessage, type ConnectionStep } from "./connectionSteps";
import { useStored } from "../../core/store/store";
import css from "./ConnectView.module.css";
import { SetupSteps } from "./SetupSteps";
import { TokenQuestion } from "./TokenQuestion";
import type { Hosts } from "./useHosts";

const TEST_MESSAGE = "Hello! Please answer this message with one sentence, so that I can see that you are connected.";

interface Props {
  connection: CreatedWorkspace;
  hosts: Hosts;
  onHide: () => void;
  onAnother: () => void;
}

export function ConnectionStatus({ connection, hosts, onHide, onAnother }: Props) {
  const { router } = useApp();
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus(), []);
  const [next, setNext] = useState<(() => void) | null>(null);
  const openChat = (): void => {
    onHide();
    router.go({ view: "org", focus: connection.id, panel: "chat", filter: "" });
  };
  // Both would lose a token that is shown nowhere else.
  const pendingApproval = (go: () => void): void => (connection.token === "" ? go() : setNext(() => go));
  return (
    <div className={css.arrival}>
      <h3 ref={heading} tabIndex={-1} className={css.made}>
        “{connection.name}” created
      </h3>
      <Token connection={connection} onHide={onHide} />
      <SetupSteps workspaceId={connection.id} hosts={hosts} />
      <Checklist workspaceId={connection.id} />
      <div className={css.after}>
        <Button kind="primary" onClick={() => pendingApproval(openChat)}>
          Open chat
        </Button>
        <Button onClick={() => pendingApproval(onAnother)}>Connect another agent</Button>
      </div>
      {next !== null && <TokenQuestion onGo={next} onStay={() => setNext(null)} />}
    </div>
  );
}

function Token({ connection: { id, token }, onHide }: { connection: CreatedWorkspace; onHide: () => void }) {
  if (token === "") {
    return (
      <p className={`${css.token} ${css.hidden}`}>
        <Icon name="check" />
        <span>
          The token is hidden and not stored here. If you lose it, issue a new one with “New token…” under{" "}
          <Link to={{ view: "org", focus: id, panel: "about", filter: "" }}>About</Link>.
        </span>
      </p>
    );
  }
  return (
    <div className={css.token}>
      <Icon name="warning" />
      <div className={css.tokenWords}>
        <p>
          <strong>This token is shown only once.</strong> Anyone with it can act as this agent, so keep it secret like a password.
        </p>
        <p className={css.secret}>
          <code>{token}</code>
          <CopyButton text={token} label="Copy token" />
        </p>
        <Button onClick={onHide}>Done</Button>
      </div>
    </div>
  );
}

function Checklist({ workspaceId }: { workspaceId: string }) {
  const workspace = useData((state) => state.workspaces.get(workspaceId));
  const chat = useData((state) => state.chats.get(workspaceId));
  const registeredAt = useRegistered(workspace?.status, workspace?.last_heard_at ?? null);
  const steps = useMemo(() => connectionSteps({ workspace, chat, registeredAt }), [workspace, chat, registeredAt]);
  const waitingFor = steps.find((step) => !step.done);
  const stalled = useStalled(waitingFor?.name);
  const asked = hasTestMessage(chat);
  return (
    <section className={css.box} aria-label="Connection status">
      <h4>Connection status</h4>
      <ol className={css.steps}>
        {steps.map((step) => (
          <li key={step.name} className={step.done ? css.done : css.open}>
            <StepMark step={step} waiting={step === waitingFor} />
            <div>
              <p>
                {step.title}
                <span className="visually-hidden">{step.done ? ": done" : ": pending"}</span>
              </p>
              {step === waitingFor && stalled && <p className={css.hint}>{step.cause}</p>}
              {step.name === "read" && !asked && registeredAt !== null && <TestMessage workspaceId={workspaceId} />}
            </div>
          </li>
        ))}
      </ol>
      <p role="status" className="visually-hidden">
        {waitingFor === undefined ? "The agent is connected." : `Waiting for: ${waitingFor.title}`}
      </p>
    </section>
  );
}

/** A message of the person in the agent's chat serves as test message too. */
function TestMessage({ workspaceId }: { workspaceId: string }) {
  const session = useSession();
  const entry = useStored(session.outbox.entries).findLast((each) => each.workspaceId === workspaceId);
  if (entry === undefined) return <Button onClick={() => void session.sendMessage(workspaceId, TEST_MESSAGE)}>Send test message</Button>;
  if (entry.state !== "not_sent") return <Button disabled>{entry.state === "stored" ? "Sent" : "Sending…"}</Button>;
  return (
    <>
      <p role="alert" className={css.problem}>
        Message not sent: {entry.reason}
      </p>
      <Button icon="again" onClick={() => void session.outbox.retry(entry.clientId)}>
        Retry
      </Button>
    </>
  );
}

function StepMark({ step, waiting }: { step: ConnectionStep; waiting: boolean }) {
  return <span className={css.mark}>{step.done ? <Icon name="check" size={14} /> : waiting ? <Icon name="clock" size={14} /> : null}</span>;
}

/** When the agent was first connected; a later time is a heartbeat. */
function useRegistered(status: string | undefined, heard: string | null): string | null {
  const [first, setFirst] = useState<string | null>(null);
  useEffect(() => {
    if (status === "online" || status === "degraded") setFirst((known) => known ?? heard ?? "");
  }, [status, heard]);
  return first;
}

function useStalled(step: string | undefined): boolean {
  const now = useNow();
  const since = useRef({ step, at: Date.now() });
  if (since.current.step !== step) since.current = { step, at: Date.now() };
  return step !== undefined && now - since.current.at > STALLED_MS;
}
