/** The machines with a runner, read again when one changes. */

import { useEffect, useState } from "react";
import { useSession } from "../../core/app";
import { errorText } from "../../core/api/api";
import { useStored } from "../../core/store/store";
import type { RunnerView } from "../../core/wire";
import { useSeconds } from "../../ui/useSeconds";

const PERIOD_MS = 10_000;

export interface Runners {
  /** Null until they were read. */
  rows: readonly RunnerView[] | null;
  problem: string | null;
}

export function useRunners(): Runners {
  const session = useSession();
  const changes = useStored(session.runnerChanges);
  const [runners, setRunners] = useState<Runners>({ rows: null, problem: null });
  const { api, identity, canSend } = session;
  // A runner becomes gone by its silence, which is no event.
  const period = Math.floor(useSeconds(true) / PERIOD_MS);
  useEffect(() => {
    if (!canSend) return;
    let open = true;
    api.runners(identity.org.id).then(
      (rows) => open && setRunners({ rows, problem: null }),
      (error: unknown) => open && setRunners((last) => ({ ...last, problem: errorText(error) })),
    );
    return () => void (open = false);
  }, [api, identity.org.id, canSend, changes, period]);
  return runners;
}
