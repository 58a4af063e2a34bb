/** Send a test message that shows how an agent follows the active instructions. */

import { useMemo, useState } from "react";
import { useData, useSession } from "../../core/app";
import { announce } from "../../ui/Announcer";
import { Button } from "../../ui/Button";
import { Link } from "../../ui/Link";
import type { Workspace } from "../../core/state/model";
import { useStored } from "../../core/store/store";
import css from "./Instructions.module.css";
import type { Row } from "./model";

export const TEST_TEXT = "This is a test of the instructions sent with messages. Please answer with one sentence; no other action is needed.";

export function TestPush({ template }: { template: Row }) {
  const session = useSession();
  const workspaces = useData((state) => state.workspaces);
  const agents = useMemo(() => agentsUsing(template, [...workspaces.values()]), [template, workspaces]);
  const [chosen, setChosen] = useState("");
  const [sentTo, setSentTo] = useState<string | null>(null);
  const entry = useStored(session.outbox.entries).findLast((each) => each.workspaceId === sentTo && each.text === TEST_TEXT);
  if (!session.canSend || agents.length === 0) return null;
  const workspaceId = agents.some((each) => each.id === chosen) ? chosen : (agents[0]?.id ?? "");
  const send = async (): Promise<void> => {
    setSentTo(workspaceId);
    const { ok } = await session.sendMessage(workspaceId, TEST_TEXT);
    if (ok) announce("Test message sent");
  };
  return (
    <section className={css.push} aria-label="Test message">
      <h3>Test message</h3>
      <p className={css.hint}>Sends a message to an agent with the active version: “{TEST_TEXT}”</p>
      <div className={css.deeds}>
        <label>
          To{" "}
          <select value={workspaceId} onChange={(event) => setChosen(event.target.value)}>
            {agents.map(({ id, name }) => (
              <option key={id} value={id}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <Button icon="send" onClick={() => void send()}>
          Send test message
        </Button>
        {sentTo !== null && (
          <Link className={css.see} to={{ view: "chats", workspaceId: sentTo, messageId: null }}>
            View in chat
          </Link>
        )}
      </div>
      {entry?.state === "not_sent" && (
        <p role="alert" className={css.problem}>
          Test message not sent: {entry.reason}
        </p>
      )}
    </section>
  );
}

/** Agents that use the template first; without any, all agents of its runtime. */
function agentsUsing({ id, runtime }: Row, all: readonly Workspace[]): readonly Workspace[] {
  const byName = [...all].sort((one, other) => one.name.localeCompare(other.name));
  const own = byName.filter((each) => each.instruction_template_id === id || `workspace:${each.id}` === id);
  if (own.length > 0) return own;
  const same = byName.filter((each) => each.instruction_template_id === null && each.runtime === runtime);
  return same.length > 0 ? same : byName;
}
