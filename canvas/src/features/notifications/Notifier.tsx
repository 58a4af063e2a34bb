/** Show notifications according to the settings. Renders nothing. */

import { useEffect, useRef } from "react";
import { useApp, useSession } from "../../core/app";
import { INBOX } from "../../core/router";
import { useStored } from "../../core/store/store";
import { itemPlace } from "../attention/useAttention";
import { Notifications } from "./notifications";

export function Notifier() {
  const { router, settings } = useApp();
  const { inbox, problemLists, canSend } = useSession();
  const items = useStored(inbox);
  const isRead = useStored(problemLists.status).readAt !== null;
  const notifications = useRef<Notifications | null>(null);
  useEffect(() => {
    if (!canSend) return;
    const made = new Notifications({
      settings: () => settings.get(),
      open: (item) => router.go(item === null ? INBOX : itemPlace(item)),
      onUnable: () => settings.change({ notify: false, cannotNotify: true }),
    });
    notifications.current = made;
    made.start();
    return () => {
      notifications.current = null;
      made.stop();
    };
  }, [router, settings, canSend]);
  useEffect(() => notifications.current?.update(items, isRead), [items, isRead]);
  return null;
}
