/** A command to the server that a button gives: one at a time, and what is refused is told beside it. */

import { useState, type ReactNode } from "react";
import { wordsOf } from "../core/api/api";
import { announce } from "./Announcer";

export interface Deed {
  busy: boolean;
  problem: string | null;
  /** Gives the command; says `done` aloud once it is done, which may depend on what came of it, and calls `after`. */
  run: <T>(act: () => Promise<T>, done: string | ((result: T) => string), after?: () => void | Promise<void>) => void;
}

export function useDeed(): Deed {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  const run: Deed["run"] = (act, done, after) => {
    setBusy(true);
    setProblem(null);
    act()
      .then((result) => {
        announce(typeof done === "string" ? done : done(result));
        return after?.();
      })
      .catch((error: unknown) => setProblem(wordsOf(error)))
      .finally(() => setBusy(false));
  };
  return { busy, problem, run };
}

export function DeedProblem({ deed, className }: { deed: Deed; className: string | undefined }): ReactNode {
  if (deed.problem === null) return null;
  return (
    <p role="alert" className={className}>
      {deed.problem}
    </p>
  );
}
