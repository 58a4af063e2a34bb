/** When a message reached each step of its delivery. */

import { useEffect, useState } from "react";
import { useSession } from "../../core/app";
import { errorText } from "../../core/api/api";
import { exact } from "../../core/text/time";
import css from "./DeliveryTimes.module.css";

const STEPS: Readonly<Record<string, string>> = {
  stored: "Sent",
  wake_asked: "Agent notified",
  in_inbox: "In the agent’s inbox",
  handed_over: "Delivered",
  acked: "Acknowledged",
  dead: "Not delivered",
};

interface Props {
  workspaceId: string;
  messageId: string;
}

export function DeliveryTimes({ workspaceId, messageId }: Props) {
  const { api } = useSession();
  const [steps, setSteps] = useState<readonly { tick: string; at: string }[]>([]);
  const [problem, setProblem] = useState<string | null>(null);
  useEffect(() => {
    let current = true;
    api.ticks(workspaceId, messageId).then(
      (found) => current && setSteps(found),
      (error: unknown) => current && setProblem(errorText(error)),
    );
    return () => void (current = false);
  }, [api, workspaceId, messageId]);
  if (problem !== null) {
    return (
      <p role="alert" className={css.problem}>
        Could not load delivery times: {problem}
      </p>
    );
  }
  return (
    <dl className={css.times}>
      {steps.map(({ tick, at }, index) => (
        <div key={index}>
          <dt>{STEPS[tick] ?? tick}</dt>
          <dd>{exact(at)}</dd>
        </div>
      ))}
    </dl>
  );
}
