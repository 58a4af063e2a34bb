/** A command to the server that a button gives: one at a time, and what is refused is told beside it. */

import { useState, type ReactNode } from "react";
import { wordsOf } from "../live/api";
import { announce } from "../parts/Announcer";

export interface Deed {
  busy: boolean;
  problem: string | null;
  /** Gives the command; says `done` aloud once it is done, and calls `after`. */
  run: (act: () => Promise<unknown>, done: string, after?: () => void | Promise<void>) => void;
}

export function useDeed(): Deed {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  const run: Deed["run"] = (act, done, after) => {
    setBusy(true);
    setProblem(null);
    act()
      .then(() => {
        announce(done);
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
