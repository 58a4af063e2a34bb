/** Start an agent on a machine with a runner, and watch it come online. */

import { useId, useState, type FormEvent } from "react";
import { useApp, useData, useSession } from "../../core/app";
import { errorText } from "../../core/api/api";
import { statusOf } from "../../core/state/agentStatus";
import type { RunnerView } from "../../core/wire";
import { Button } from "../../ui/Button";
import { ShellCommand } from "../../ui/ShellCommand";
import css from "./ConnectView.module.css";
import { ParentField } from "./WorkspaceForm";

const INSTALLS = [
  { title: "Claude Code", command: "npm install -g @anthropic-ai/claude-code" },
  { title: "Codex", command: "npm install -g @openai/codex" },
  { title: "Gemini CLI", command: "npm install -g @google/gemini-cli" },
  { title: "opencode", command: "npm install -g opencode-ai" },
];

interface Created {
  id: string;
  name: string;
}

export function AddAgent({ runners }: { runners: readonly RunnerView[] }) {
  const { api, identity } = useSession();
  const longest = useData((state) => state.limits.name_length);
  const [machineId, setMachineId] = useState("");
  const [kind, setKind] = useState("");
  const [mode, setMode] = useState("");
  const [name, setName] = useState("");
  const [parent, setParent] = useState("");
  const [ownFolder, setOwnFolder] = useState<string | null>(null);
  const [created, setCreated] = useState<Created | null>(null);
  const [started, setStarted] = useState(false);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  const id = useId();

  const online = runners.filter((each) => !each.is_gone);
  const machine = online.find((each) => each.id === machineId) ?? online.find((each) => each.installed.length > 0) ?? online[0];
  const agent = machine?.installed.find((each) => each.kind === kind) ?? machine?.installed[0];
  const modes = agent?.modes ?? [];
  const folder = ownFolder ?? `${machine?.folders[0] ?? ""}/${folderName(name)}`;

  const start = async (runnerId: string, agentKind: string): Promise<void> => {
    // A workspace whose agent could not be started is used by the next try.
    const place = created ?? (await api.createWorkspace({ name: name.trim(), ...(parent === "" ? {} : { parent_id: parent }) }));
    setCreated({ id: place.id, name: place.name });
    const wanted = { action: "start" as const, workspace_id: place.id, kind: agentKind, folder, mode: modes.includes(mode) ? mode : "" };
    const ended = await api.requestRunner(identity.org.id, runnerId, wanted);
    if (ended.status === "done") setStarted(true);
    else setProblem(ended.text === "" ? "The machine has not confirmed the start. Look whether its runner is online." : ended.text);
  };
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (machine === undefined || agent === undefined) return;
    if (name.trim() === "") {
      setProblem("Enter a name for the agent.");
      return;
    }
    setBusy(true);
    setProblem(null);
    start(machine.id, agent.kind)
      .catch((error: unknown) => setProblem(errorText(error)))
      .finally(() => setBusy(false));
  };

  if (started && created !== null) return <Started created={created} runners={runners} />;
  if (machine === undefined) return <p className={css.lead}>No machine is online. Start `molecule runner` on one.</p>;
  return (
    <form className={css.form} onSubmit={submit} noValidate aria-label="Add an agent">
      <div className={css.field}>
        <label htmlFor={`${id}machine`}>Machine</label>
        <select id={`${id}machine`} value={machine.id} onChange={(event) => setMachineId(event.target.value)}>
          {runners.map((each) => (
            <option key={each.id} value={each.id} disabled={each.is_gone}>
              {each.is_gone ? `${each.name} (gone)` : each.name}
            </option>
          ))}
        </select>
      </div>
      {agent === undefined ? (
        <Install machine={machine.name} />
      ) : (
        <>
          <div className={css.field}>
            <label htmlFor={`${id}kind`}>Agent</label>
            <select id={`${id}kind`} value={agent.kind} onChange={(event) => setKind(event.target.value)}>
              {machine.installed.map((each) => (
                <option key={each.kind} value={each.kind}>
                  {`${each.title} ${each.version}`.trim()}
                </option>
              ))}
            </select>
          </div>
          <div className={css.field}>
            <label htmlFor={`${id}name`}>Name</label>
            <input
              id={`${id}name`}
              value={name}
              maxLength={longest}
              required
              autoComplete="off"
              disabled={created !== null}
              onChange={(event) => setName(event.target.value)}
            />
          </div>
          <ParentField value={parent} onChange={setParent} />
          <div className={css.field}>
            <label htmlFor={`${id}folder`}>Folder on {machine.name}</label>
            <input id={`${id}folder`} value={folder} autoComplete="off" aria-describedby={`${id}hint`} onChange={(event) => setOwnFolder(event.target.value)} />
            <p id={`${id}hint`} className={css.hint}>
              {machine.folders.length === 0 ? "The machine allows no folder yet." : `Allowed: ${machine.folders.join(", ")} and folders below.`}
            </p>
          </div>
          {modes.length > 0 && (
            <div className={css.field}>
              <label htmlFor={`${id}mode`}>Permission mode</label>
              <select id={`${id}mode`} value={modes.includes(mode) ? mode : modes[0]} onChange={(event) => setMode(event.target.value)}>
                {modes.map((each) => (
                  <option key={each} value={each}>
                    {each}
                  </option>
                ))}
              </select>
            </div>
          )}
        </>
      )}
      {problem !== null && (
        <p className={css.problem} role="alert">
          {problem}
        </p>
      )}
      {agent !== undefined && (
        <div>
          <Button type="submit" kind="primary" disabled={busy}>
            {busy ? "Starting agent…" : "Add agent"}
          </Button>
        </div>
      )}
    </form>
  );
}

function Install({ machine }: { machine: string }) {
  return (
    <>
      <p>No agent is installed on {machine}. Install one there; it appears here within a minute.</p>
      {INSTALLS.map(({ title, command }) => (
        <ShellCommand key={title} label={`command that installs ${title}`} text={command} />
      ))}
    </>
  );
}

function Started({ created, runners }: { created: Created; runners: readonly RunnerView[] }) {
  const { router } = useApp();
  const online = useData((state) => {
    const found = state.workspaces.get(created.id);
    return found !== undefined && ["online", "working"].includes(statusOf(found));
  });
  const agent = runners.flatMap((each) => each.agents).find((each) => each.workspace_id === created.id);
  const trouble = !online && agent !== undefined && agent.text !== "" ? agent.text : null;
  return (
    <div className={css.arrival}>
      <p role="status">{online ? `“${created.name}” is online.` : `Starting “${created.name}”…`}</p>
      {trouble !== null && (
        <p className={css.problem} role="alert">
          {trouble}
        </p>
      )}
      <div>
        <Button kind="primary" onClick={() => router.go({ view: "org", focus: created.id, panel: "chat", filter: "" })}>
          Open chat
        </Button>
      </div>
    </div>
  );
}

/** The name of an agent as the name of a folder. */
function folderName(name: string): string {
  const safe = name.trim().replace(/[^\p{L}\p{N} _-]/gu, "-");
  return safe === "" ? "agent" : safe;
}
