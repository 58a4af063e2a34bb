/** A report of usage: read when its range or grouping changes, and when the connection is back. */

import { useCallback, useEffect, useState } from "react";
import { useSession } from "../../core/app";
import { errorText } from "../../core/api/api";
import type { UsageGrouping } from "../../core/router";
import { useStored } from "../../core/store/store";
import type { UsageReport } from "../../core/wire";

const DAY_MS = 86_400_000;

interface UsageRead {
  report: UsageReport | null;
  days: UsageReport | null;
  problem: string | null;
  retry: () => void;
}

/** `range`: number of days up to today. */
export function useUsage(by: UsageGrouping, range: number): UsageRead {
  const { api, identity, connection } = useSession();
  const orgId = identity.org.id;
  const isLost = useStored(connection.view).mode === "lost";
  const [found, setFound] = useState<{ report: UsageReport; days: UsageReport } | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    if (isLost) return;
    let isCurrent = true;
    const from = new Date(Date.now() - (range - 1) * DAY_MS).toISOString().slice(0, 10);
    const read = (grouping: UsageGrouping): Promise<UsageReport> =>
      api.request<UsageReport>("GET", `/orgs/${encodeURIComponent(orgId)}/usage?${new URLSearchParams({ by: grouping, from }).toString()}`);
    Promise.all([read(by), read("day")]).then(
      ([report, days]) => {
        if (!isCurrent) return;
        setFound({ report, days });
        setProblem(null);
      },
      (error: unknown) => isCurrent && setProblem(errorText(error)),
    );
    return () => {
      isCurrent = false;
    };
  }, [api, orgId, by, range, isLost, turn]);
  return { report: found?.report ?? null, days: found?.days ?? null, problem, retry: useCallback(() => setTurn((each) => each + 1), []) };
}
