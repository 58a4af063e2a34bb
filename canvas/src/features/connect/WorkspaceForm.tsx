/** Form for a new workspace. */

import { useId, useMemo, useRef, useState, type FormEvent } from "react";
import { useData, useSession } from "../../core/app";
import { Button } from "../../ui/Button";
import { NoResponseError, errorText, type CreatedWorkspace } from "../../core/api/api";
import { childrenOf, treeOf, type Tree } from "../../core/state/tree";
import { plural } from "../../core/text/strings";
import css from "./ConnectView.module.css";
import { HostSelect, type Hosts } from "./useHosts";

/** Without a response the workspace may exist; repeating the request would create another one. */
const MAYBE_CREATED = "The workspace may still have been created. Look for it in the organisation first; if it exists, issue its token under About.";

export function WorkspaceForm({ hosts, onMade }: { hosts: Hosts; onMade: (connection: CreatedWorkspace) => void }) {
  const session = useSession();
  const longest = useData((state) => state.limits.name_length);
  const [name, setName] = useState("");
  const [role, setRole] = useState("");
  const [parent, setParent] = useState("");
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  const first = useRef<HTMLInputElement>(null);
  const id = useId();

  const submit = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    if (name.trim() === "") {
      setProblem("Enter a name for the agent.");
      first.current?.focus();
      return;
    }
    setBusy(true);
    setProblem(null);
    try {
      const optional = {
        ...(hosts.chosen === null ? {} : { runtime: hosts.chosen.runtime }),
        ...(parent === "" ? {} : { parent_id: parent }),
        ...(role.trim() === "" ? {} : { role: role.trim() }),
      };
      onMade(await session.api.createWorkspace({ name: name.trim(), ...optional }));
    } catch (error) {
      setProblem(error instanceof NoResponseError ? `${errorText(error)} ${MAYBE_CREATED}` : errorText(error));
      setBusy(false);
    }
  };

  if (!session.canSend) {
    return <p className={css.lead}>Viewers cannot create workspaces. Ask an owner to change your role.</p>;
  }
  return (
    <form className={css.form} onSubmit={(event) => void submit(event)} noValidate>
      <p className={css.lead}>
        Each agent has a workspace. Create one here; the next page shows how to connect your agent, and when it is connected.
      </p>
      <HostSelect hosts={hosts} />
      <div className={css.field}>
        <label htmlFor={`${id}name`}>Name</label>
        <input
          id={`${id}name`}
          ref={first}
          value={name}
          maxLength={longest}
          required
          autoComplete="off"
          aria-invalid={problem !== null || undefined}
          aria-describedby={problem === null ? undefined : `${id}problem`}
          onChange={(event) => setName(event.target.value)}
        />
      </div>
      <ParentField value={parent} onChange={setParent} />
      <div className={css.field}>
        <label htmlFor={`${id}role`}>
          Role <span className={css.optional}>optional</span>
        </label>
        <input id={`${id}role`} value={role} autoComplete="off" aria-describedby={`${id}rolehint`} onChange={(event) => setRole(event.target.value)} />
        <p id={`${id}rolehint`} className={css.hint}>
          One line that other agents see, such as “Reviews pull requests”.
        </p>
      </div>
      {problem !== null && (
        <p id={`${id}problem`} className={css.problem} role="alert">
          {problem}
        </p>
      )}
      <div>
        <Button type="submit" kind="primary" disabled={busy}>
          {busy ? "Creating workspace…" : "Create workspace"}
        </Button>
      </div>
    </form>
  );
}

/** With more options than this a search field is shown. */
const MAX_OPTIONS = 200;

export function ParentField({ value, onChange }: { value: string; onChange: (id: string) => void }) {
  const id = useId();
  return (
    <div className={css.field}>
      <label htmlFor={id}>Reports to</label>
      <ParentSelect id={id} value={value} onChange={onChange} />
    </div>
  );
}

function ParentSelect({ id, value, onChange }: { id: string; value: string; onChange: (id: string) => void }) {
  const nodes = useData((state) => state.orgNodes);
  const [words, setWords] = useState("");
  const all = useMemo(() => indented(treeOf(nodes)), [nodes]);
  const wanted = words.trim().toLowerCase();
  const fitting = all.filter((each) => each.id === value || nodes.get(each.id)?.name.toLowerCase().includes(wanted));
  return (
    <>
      {all.length > MAX_OPTIONS && (
        <input
          type="search"
          aria-label="Search agents to report to"
          placeholder={`Search ${plural(all.length, "agent")}`}
          value={words}
          onChange={(event) => setWords(event.target.value)}
        />
      )}
      <select id={id} value={value} onChange={(event) => onChange(event.target.value)}>
        <option value="">None (top level)</option>
        {fitting.slice(0, MAX_OPTIONS).map(({ id: each, level }) => (
          <option key={each} value={each}>
            {"\u2003".repeat(wanted === "" ? level : 0)}
            {nodes.get(each)?.name}
          </option>
        ))}
      </select>
    </>
  );
}

function indented(tree: Tree): { id: string; level: number }[] {
  const found: { id: string; level: number }[] = [];
  const open = [...tree.roots].reverse().map((id) => ({ id, level: 0 }));
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { id, level } = next;
    found.push(next);
    open.push(...[...childrenOf(tree, id)].reverse().map((child) => ({ id: child, level: level + 1 })));
  }
  return found;
}
