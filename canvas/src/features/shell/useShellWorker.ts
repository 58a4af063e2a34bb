/** Keeps the files of the page for a start without connection, once the page is shown and its parts are loaded. */

import { useEffect } from "react";
import { useApp, useSession } from "../../core/app";
import { preloadParts } from "../../ui/lazyPart";

/** After the first view, as the other parts: the worker asks for the same files, which the browser then has. */
const AFTER_MS = 1_000;

const load = () => import("../../core/live/shellWorker");

export function useShellWorker(isShown: boolean): void {
  const app = useApp();
  const { connection } = useSession();
  useEffect(() => {
    if (!isShown) return;
    let stopped = false;
    const register = async (): Promise<void> => {
      await preloadParts();
      const { registerShellWorker } = await load();
      if (!stopped) await registerShellWorker(() => app.updated.set(true));
    };
    const timer = setTimeout(() => void register().catch(() => undefined), AFTER_MS);
    let wasLost = false;
    const stop = connection.view.subscribe(() => {
      const { mode } = connection.view.get();
      if (mode === "live" && wasLost) void load().then((found) => found.updateShellWorker(), () => undefined);
      wasLost = mode === "lost";
    });
    return () => {
      stopped = true;
      clearTimeout(timer);
      stop();
    };
  }, [app, connection, isShown]);
}
