/** The menus of the header: of the logged-in person, and of the organisations in which this browser is logged in. */

import { useEffect } from "react";
import { useApp, useSession, useSettings } from "../../core/app";
import { errorText } from "../../core/api/api";
import { announce } from "../../ui/Announcer";
import { Menu, type MenuItem } from "../../ui/Menu";
import type { Point } from "../../ui/point";
import { useStored } from "../../core/store/store";
import type { Theme } from "../../core/store/settings";

const THEMES: readonly { value: Theme; label: string }[] = [
  { value: "system", label: "System theme" },
  { value: "light", label: "Light theme" },
  { value: "dark", label: "Dark theme" },
];

export function UserMenu({ at, onClose }: { at: Point; onClose: () => void }) {
  const app = useApp();
  const { identity } = useSession();
  const { theme } = useSettings();
  const items: readonly MenuItem[] = [
    { label: "Settings", run: () => app.router.go({ view: "settings" }) },
    ...THEMES.map(({ value, label }, at) => ({
      label,
      begins: at === 0,
      checked: theme === value,
      run: () => app.settings.change({ theme: value }),
    })),
    { label: "Log out", begins: true, run: () => void app.logOut().catch((error: unknown) => announce(errorText(error))) },
  ];
  const { name, role } = identity.user;
  return <Menu label="Account" at={at} heading={{ title: name, text: role }} items={items} onClose={onClose} />;
}

export function OrgMenu({ at, onClose }: { at: Point; onClose: () => void }) {
  const app = useApp();
  const { identity } = useSession();
  useEffect(() => void app.readLogins(), [app]); // names may have changed
  const items = useStored(app.logins).map(({ org, user }): MenuItem => {
    const checked = org.id === identity.org.id;
    return { key: org.id, label: org.name, hint: user.name, checked, run: () => (checked ? undefined : app.switchTo(org.id)) };
  });
  return <Menu label="Organisations" at={at} items={items} onClose={onClose} />;
}
