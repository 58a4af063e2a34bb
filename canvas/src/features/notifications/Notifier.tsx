/** Notifications of what waits for this person, as they chose them in the settings. Shows nothing itself. */

import { useEffect } from "react";
import { useApp, useDesk } from "../../core/app";
import { Notifying } from "./notifications";

export function Notifier() {
  const { router, settings } = useApp();
  const { data, maySend } = useDesk();
  useEffect(() => {
    if (!maySend) return;
    const notifying = new Notifying({
      wishes: () => settings.get(),
      open: (approval) => router.go({ view: "inbox", list: "waiting", open: approval && { id: approval.id, workspaceId: approval.workspaceId } }),
      onUnable: () => settings.change({ notify: false, cannotNotify: true }),
    });
    const take = (): void => {
      const approvals = data.get()?.approvals;
      if (approvals !== undefined) notifying.take(approvals);
    };
    notifying.start();
    take();
    const leave = data.subscribe(take);
    return () => {
      leave();
      notifying.stop();
    };
  }, [router, settings, data, maySend]);
  return null;
}
