/** Issue a new token for a workspace: ask what happens to the current ones, and show the new one until it is confirmed. */

import { useId, useState, type FormEvent } from "react";
import { useData, useSession } from "../../core/app";
import type { IssuedToken } from "../../core/api/api";
import { statusOf } from "../../core/state/agentStatus";
import type { Workspace } from "../../core/state/model";
import { useStored } from "../../core/store/store";
import { until } from "../../core/text/time";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { ShellCommand } from "../../ui/ShellCommand";
import { ActionProblem, useAction } from "../../ui/useAction";
import { TokenQuestion } from "../connect/TokenQuestion";
import css from "./AgentActions.module.css";

const PERIODS = [
  { seconds: 0, text: "Immediately" },
  { seconds: 300, text: "In 5 minutes" },
  { seconds: 900, text: "In 15 minutes" },
  { seconds: 3_600, text: "In 1 hour" },
];
/** Enough to restart an agent with the new token. */
const DEFAULT_SECONDS = 900;

export function NewTokenDialog({ workspace, onClose }: { workspace: Workspace; onClose: () => void }) {
  const session = useSession();
  const longest = useData((state) => state.limits.grace_seconds);
  const periods = PERIODS.filter(({ seconds }) => seconds <= longest);
  const [grace, setGrace] = useState(Math.min(DEFAULT_SECONDS, periods.at(-1)?.seconds ?? 0));
  const action = useAction();
  const field = useId();
  const isRunning = !["offline", "provisioning"].includes(statusOf(workspace));
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    action.run(() => session.issueToken(workspace, grace), "New token issued", onClose);
  };
  return (
    <Dialog label={`Issue a new token for ${workspace.name}?`} onClose={onClose}>
      <form className={css.dialog} onSubmit={submit}>
        <p>
          All current tokens of <bdi>{workspace.name}</bdi> stop working.{" "}
          {isRunning ? <strong>The running agent loses access</strong> : "An agent that has one of them loses access"} until it is set up with the new token.
        </p>
        <div className={css.field}>
          <label htmlFor={field}>Current tokens stop working</label>
          <select id={field} value={grace} aria-describedby={`${field}hint`} onChange={(event) => setGrace(Number(event.target.value))}>
            {periods.map(({ seconds, text }) => (
              <option key={seconds} value={seconds}>
                {text}
              </option>
            ))}
          </select>
          <p id={`${field}hint`} className={css.lead}>
            {grace === 0 ? "The agent is disconnected at once. Choose this if a token has leaked." : "Until then the agent keeps working. Choose “Immediately” if a token has leaked."}
          </p>
        </div>
        <ActionProblem action={action} className={css.problem} />
        <div className={css.buttons}>
          <Button kind="danger" type="submit" disabled={action.busy}>
            Issue new token
          </Button>
          <Button onClick={onClose}>Cancel</Button>
        </div>
      </form>
    </Dialog>
  );
}

/** The token that was issued last, over every view, until the person confirms to have it. */
export function IssuedTokenDialog() {
  const { issuedToken } = useSession();
  const issued = useStored(issuedToken);
  return issued === null ? null : <TokenDialog key={issued.token} issued={issued} onDone={() => issuedToken.set(null)} />;
}

function TokenDialog({ issued, onDone }: { issued: IssuedToken; onDone: () => void }) {
  // Escape, the close button and a press outside only ask: the token is shown nowhere else.
  const [asking, setAsking] = useState(false);
  if (asking) return <TokenQuestion key="question" onGo={onDone} onStay={() => setAsking(false)} />;
  return (
    <Dialog key="token" label={`New token for ${issued.name}`} onClose={() => setAsking(true)}>
      <div className={css.dialog}>
        <p>
          <strong>This token is shown only once.</strong> Anyone with it can act as this agent, so keep it secret like a password.
        </p>
        <ShellCommand label="New token" text={issued.token} />
        <p className={css.lead}>
          {issued.grace === 0 ? "Earlier tokens no longer work." : `Earlier tokens work until ${until(issued.endsAt, Date.now())}.`} Set up the agent with this one.
        </p>
        <div className={css.buttons}>
          <Button kind="primary" onClick={onDone}>
            Done
          </Button>
        </div>
      </div>
    </Dialog>
  );
}
