/** The name of the organisation, its status counts, and whether the page is live. */

import { useMemo } from "react";
import { useSession } from "../../core/app";
import { Icon } from "../../ui/Icon";
import type { State } from "../../core/state/model";
import { countStatuses, statusOf } from "../../core/state/agentStatus";
import { useStored } from "../../core/store/store";
import { plural } from "../../core/text/strings";
import css from "./Header.module.css";

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
  return (
    <header className={css.header}>
      <div className={css.about}>
        <h1 className={css.name}>{state?.org.name ?? session.identity.org.name}</h1>
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
