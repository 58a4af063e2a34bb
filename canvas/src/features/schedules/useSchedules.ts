/** The schedules of the organisation: read again when one changes or runs, and when the connection is back. */

import { useCallback, useEffect, useState } from "react";
import { errorText } from "../../core/api/api";
import { useSession } from "../../core/app";
import { useStored } from "../../core/store/store";
import type { ScheduleList, ScheduleView } from "../../core/wire";

interface Schedules {
  schedules: readonly ScheduleView[] | null;
  problem: string | null;
  reread: () => Promise<void>;
}

export function useSchedules(path: string): Schedules {
  const { api, connection, scheduleChanges } = useSession();
  const isLost = useStored(connection.view).mode === "lost";
  const changes = useStored(scheduleChanges);
  const [schedules, setSchedules] = useState<readonly ScheduleView[] | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const reread = useCallback(async (): Promise<void> => {
    try {
      setSchedules((await api.request<ScheduleList>("GET", path)).schedules);
      setProblem(null);
    } catch (error) {
      setProblem(errorText(error));
    }
  }, [api, path]);
  useEffect(() => {
    if (!isLost) void reread();
  }, [reread, isLost, changes]);
  return { schedules, problem, reread };
}
