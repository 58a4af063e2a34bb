/** A command of a button: one at a time, with its error shown beside it. */

import { useState, type ReactNode } from "react";
import { errorText } from "../core/api/api";
import { announce } from "./Announcer";

export interface Action {
  busy: boolean;
  problem: string | null;
  /** Run the command, announce `done` (which may depend on the result), and call `after`. */
  run: <T>(act: () => Promise<T>, done: string | ((result: T) => string), after?: () => void | Promise<void>) => void;
}

export function useAction(): Action {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  const run: Action["run"] = (act, done, after) => {
    setBusy(true);
    setProblem(null);
    act()
      .then((result) => {
        announce(typeof done === "string" ? done : done(result));
        return after?.();
      })
      .catch((error: unknown) => setProblem(errorText(error)))
      .finally(() => setBusy(false));
  };
  return { busy, problem, run };
}

export function ActionProblem({ action, className }: { action: Action; className: string | undefined }): ReactNode {
  if (action.problem === null) return null;
  return (
    <p role="alert" className={className}>
      {action.problem}
    </p>
  );
}
