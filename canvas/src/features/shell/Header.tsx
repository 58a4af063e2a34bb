/** The name of the organisation, its status counts, and whether the page is live. */

import { Suspense, useCallback, useMemo, useState } from "react";
import { useApp, useSession } from "../../core/app";
import { Avatar } from "../../ui/Avatar";
import { lazyPart } from "../../ui/lazyPart";
import { pointBelow, type Point } from "../../ui/point";
import { Icon } from "../../ui/Icon";
import type { State } from "../../core/state/model";
import { countStatuses, statusOf } from "../../core/state/agentStatus";
import { useStored } from "../../core/store/store";
import { plural } from "../../core/text/strings";
import css from "./Header.module.css";

const UserMenu = lazyPart(() => import("./UserMenu").then((found) => found.UserMenu));

const OrgMenu = lazyPart(() => import("./UserMenu").then((found) => found.OrgMenu));

const MODES = {
  starting: { word: "Connecting", css: css.waiting },
  live: { word: "Live", css: css.live },
  lost: { word: "Reconnecting", css: css.waiting },
  outdated: { word: "Outdated", css: css.waiting },
} as const;

export function Header({ onSearch }: { onSearch: () => void }) {
  const session = useSession();
  const state = useStored(session.throttledData);
  const { mode } = useStored(session.connection.view);
  const several = useStored(useApp().logins).length > 1;
  const name = state?.org.name ?? session.identity.org.name;
  const [menu, setMenu] = useState<{ of: "user" | "orgs"; at: Point } | null>(null);
  const closeMenu = useCallback(() => setMenu(null), []);
  return (
    <header className={css.header}>
      <div className={css.about}>
        <h1 className={css.name}>
          {several ? (
            <button type="button" className={css.orgs} aria-haspopup="menu" onClick={(event) => setMenu(menu === null ? { of: "orgs", at: pointBelow(event.currentTarget) } : null)}>
              {name}
              <Icon name="below" size={12} />
            </button>
          ) : (
            name
          )}
        </h1>
        {state !== null && <Counts workspaces={state.workspaces} />}
      </div>
      <button type="button" className={css.search} onClick={onSearch} aria-keyshortcuts="Control+K">
        <Icon name="search" />
        <span className={css.words}>Search agents, texts and commands</span>
        <kbd className={css.key}>Ctrl+K</kbd>
      </button>
      <p className={`${css.mode} ${MODES[mode].css}`}>
        <svg width="0.625rem" height="0.625rem" viewBox="0 0 12 12" aria-hidden="true" focusable="false">
          {mode === "live" ? (
            <circle cx="6" cy="6" r="4.5" fill="currentColor" />
          ) : (
            <circle cx="6" cy="6" r="4" fill="none" stroke="currentColor" strokeWidth="2.2" strokeDasharray="18 7.2" />
          )}
        </svg>
        {MODES[mode].word}
      </p>
      <button
        type="button"
        className={css.user}
        aria-haspopup="menu"
        title={session.identity.user.name}
        onClick={(event) => setMenu(menu === null ? { of: "user", at: pointBelow(event.currentTarget) } : null)}
      >
        <Avatar name={session.identity.user.name} />
        <span className="visually-hidden">Account of {session.identity.user.name}</span>
      </button>
      <Suspense>
        {menu?.of === "user" && <UserMenu at={menu.at} onClose={closeMenu} />}
        {menu?.of === "orgs" && <OrgMenu at={menu.at} onClose={closeMenu} />}
      </Suspense>
    </header>
  );
}

function Counts({ workspaces }: { workspaces: State["workspaces"] }) {
  const counts = useMemo(() => countStatuses([...workspaces.values()].map(statusOf)), [workspaces]);
  const here = (counts.get("online") ?? 0) + (counts.get("working") ?? 0);
  return (
    <p className={css.counts}>
      {plural(workspaces.size, "agent")}
      {workspaces.size > 0 && ` · ${here} online`}
    </p>
  );
}
