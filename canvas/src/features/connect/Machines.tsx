/** The machines with a runner, the agents that they run, and those that people have started there. */

import { useState, type FormEvent } from "react";
import { useApp, useSession } from "../../core/app";
import type { OpenSession, RunnerAgentView, RunnerView } from "../../core/wire";
import { Button } from "../../ui/Button";
import { ActionProblem, useAction } from "../../ui/useAction";
import css from "./ConnectView.module.css";

export function Machines({ runners }: { runners: readonly RunnerView[] }) {
  const shown = runners.filter((each) => each.is_gone || each.agents.length > 0 || each.sessions.length > 0);
  if (shown.length === 0) return null;
  return (
    <section className={css.machines} aria-label="Machines">
      {shown.map((runner) => (
        <div key={runner.id} className={css.box}>
          <h3 className={css.made}>{runner.is_gone ? `${runner.name} (gone)` : runner.name}</h3>
          {runner.is_gone && (
            <p className={css.hint}>
              {runner.seen_at === null ? "Its runner has not connected yet." : "Its runner is not connected, so the states of its agents are unknown."} Start <code>molecule runner</code> there.
            </p>
          )}
          {runner.agents.length === 0 ? (
            <p className={css.hint}>No agents run here.</p>
          ) : (
            <ul className={css.agents}>
              {runner.agents.map((agent) => (
                <MachineAgent key={agent.workspace_id} runner={runner} agent={agent} />
              ))}
            </ul>
          )}
          {runner.sessions.length > 0 && (
            <ul className={css.agents} aria-label={`Sessions in terminals of ${runner.name}`}>
              {runner.sessions.map((session) => (
                <TerminalSession key={session.pid} runner={runner} session={session} />
              ))}
            </ul>
          )}
        </div>
      ))}
    </section>
  );
}

function MachineAgent({ runner, agent }: { runner: RunnerView; agent: RunnerAgentView }) {
  const { router } = useApp();
  const { api, identity } = useSession();
  const action = useAction();
  const request = (name: "restart" | "stop", done: string): void =>
    action.run(async () => {
      const wanted = { action: name, workspace_id: agent.workspace_id, kind: "", folder: "", mode: "" };
      const ended = await api.requestRunner(identity.org.id, runner.id, wanted);
      if (ended.status !== "done") throw new Error(ended.text === "" ? "The machine has not confirmed this. Look whether its runner is online." : ended.text);
    }, done);
  return (
    <li className={css.agent}>
      <div>
        <p className={css.what}>
          {agent.workspace_name}: {agent.state}
        </p>
        <p className={css.hint}>
          {agent.kind} in {agent.folder}
          {agent.text !== "" && `: ${agent.text}`}
        </p>
        <ActionProblem action={action} className={css.problem} />
      </div>
      <div className={css.agentActions}>
        <Button aria-label={`Chat with ${agent.workspace_name}`} onClick={() => router.go({ view: "org", focus: agent.workspace_id, panel: "chat", filter: "" })}>
          Chat
        </Button>
        {agent.state !== "attached" && (
          <Button aria-label={`Restart ${agent.workspace_name}`} disabled={action.busy || runner.is_gone} onClick={() => request("restart", `${agent.workspace_name} restarted`)}>
            Restart
          </Button>
        )}
        <Button aria-label={`Stop ${agent.workspace_name}`} disabled={action.busy || runner.is_gone} onClick={() => request("stop", `${agent.workspace_name} stopped`)}>
          Stop
        </Button>
      </div>
    </li>
  );
}

/** An agent that a person has started in a terminal: it is connected to a new workspace, and works there after a restart. */
function TerminalSession({ runner, session }: { runner: RunnerView; session: OpenSession }) {
  const { api, identity } = useSession();
  const action = useAction();
  const [name, setName] = useState("");
  const [created, setCreated] = useState<string | null>(null);
  const [done, setDone] = useState<string | null>(null);
  const attach = async (): Promise<void> => {
    // A workspace that could not be connected is used by the next try.
    const id = created ?? (await api.createWorkspace({ name: name.trim(), runtime: session.runtime })).id;
    setCreated(id);
    const wanted = { action: "attach" as const, workspace_id: id, kind: session.kind, folder: session.folder, mode: "" };
    const ended = await api.requestRunner(identity.org.id, runner.id, wanted);
    if (ended.status !== "done") throw new Error(ended.text === "" ? "The machine has not confirmed this. Look whether its runner is online." : ended.text);
    setDone(ended.text);
  };
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (name.trim() !== "") action.run(attach, `${name.trim()} connected`);
  };
  return (
    <li className={css.agent}>
      <div>
        <p className={css.what}>
          {session.title} in a terminal{session.is_connected && ": connected"}
        </p>
        <p className={css.hint}>{session.folder}</p>
        {done !== null && <p role="status">{done}</p>}
        <ActionProblem action={action} className={css.problem} />
      </div>
      {!session.is_connected && done === null && (
        <form className={css.agentActions} onSubmit={submit} aria-label={`Connect ${session.title} in ${session.folder}`}>
          <input aria-label="Name" placeholder="Name" value={name} autoComplete="off" disabled={created !== null} onChange={(event) => setName(event.target.value)} />
          <Button type="submit" disabled={action.busy || name.trim() === ""}>
            Connect
          </Button>
        </form>
      )}
    </li>
  );
}
