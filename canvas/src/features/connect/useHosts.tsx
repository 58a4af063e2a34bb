/** The hosts that an agent can run in, and the selected one. */

import { useEffect, useId, useState } from "react";
import { useSession } from "../../core/app";
import { errorText } from "../../core/api/api";
import type { HostRow } from "../../core/wire";
import css from "./ConnectView.module.css";

export interface Hosts {
  rows: readonly HostRow[];
  chosen: HostRow | null;
  choose: (name: string) => void;
  problem: string | null;
}

export function useHosts(): Hosts {
  const { api } = useSession();
  const [rows, setRows] = useState<readonly HostRow[]>([]);
  const [name, choose] = useState<string | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  useEffect(() => {
    let open = true;
    api.hosts().then(
      (found) => open && setRows(found),
      (error: unknown) => open && setProblem(errorText(error)),
    );
    return () => void (open = false);
  }, [api]);
  return { rows, chosen: rows.find((row) => row.name === name) ?? rows[0] ?? null, choose, problem };
}

export function HostSelect({ hosts }: { hosts: Hosts }) {
  const id = useId();
  if (hosts.problem !== null) {
    return (
      <p className={css.problem} role="alert">
        {hosts.problem}
      </p>
    );
  }
  return (
    <div className={css.field}>
      <label htmlFor={id}>Agent runs in</label>
      <select id={id} value={hosts.chosen?.name ?? ""} disabled={hosts.rows.length === 0} onChange={(event) => hosts.choose(event.target.value)}>
        {hosts.rows.map((row) => (
          <option key={row.name} value={row.name}>
            {row.title}
          </option>
        ))}
      </select>
    </div>
  );
}
