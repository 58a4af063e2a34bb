/** Show notifications according to the settings. Renders nothing. */

import { useEffect } from "react";
import { useApp, useSession } from "../../core/app";
import { Notifications } from "./notifications";

export function Notifier() {
  const { router, settings } = useApp();
  const { data, canSend } = useSession();
  useEffect(() => {
    if (!canSend) return;
    const notifications = new Notifications({
      settings: () => settings.get(),
      open: (approval) => router.go({ view: "inbox", list: "waiting", open: approval && { id: approval.id, workspaceId: approval.workspaceId } }),
      onUnable: () => settings.change({ notify: false, cannotNotify: true }),
    });
    const take = (): void => {
      const approvals = data.get()?.approvals;
      if (approvals !== undefined) notifications.update(approvals);
    };
    notifications.start();
    take();
    const pendingApproval = data.subscribe(take);
    return () => {
      pendingApproval();
      notifications.stop();
    };
  }, [router, settings, data, canSend]);
  return null;
}
