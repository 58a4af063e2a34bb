/** ARIA tabs: one tab stop, arrows move and show. */

import { useId, type KeyboardEvent, type ReactNode } from "react";
import css from "./Tabs.module.css";

interface Tab<Name extends string> {
  name: Name;
  label: ReactNode;
}

interface Props<Name extends string> {
  label: string;
  tabs: readonly Tab<Name>[];
  current: Name;
  onChange: (name: Name) => void;
  /** For many tabs in a narrow panel. */
  dense?: boolean;
  children: ReactNode;
}

export function Tabs<Name extends string>({ label, tabs, current, onChange, dense = false, children }: Props<Name>) {
  const id = useId();
  const onKey = (event: KeyboardEvent<HTMLDivElement>): void => {
    const at = tabs.findIndex((tab) => tab.name === current);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1 + tabs.length, Home: 0, End: tabs.length - 1 }[event.key];
    const next = to === undefined ? undefined : tabs[to % tabs.length];
    if (!next) return;
    event.preventDefault();
    event.currentTarget.querySelectorAll<HTMLElement>("[role=tab]")[tabs.indexOf(next)]?.focus();
    onChange(next.name);
  };
  return (
    <>
      <div role="tablist" aria-label={label} className={dense ? `${css.tabs} ${css.dense}` : css.tabs} onKeyDown={onKey}>
        {tabs.map((tab) => (
          <button
            key={tab.name}
            type="button"
            role="tab"
            id={`${id}${tab.name}`}
            aria-selected={tab.name === current}
            aria-controls={tab.name === current ? `${id}panel` : undefined}
            tabIndex={tab.name === current ? 0 : -1}
            className={css.tab}
            onClick={() => onChange(tab.name)}
          >
            {tab.label}
          </button>
        ))}
      </div>
      {/* Keyed: another tab begins at its top, however far the last one was scrolled. */}
      <div key={current} role="tabpanel" id={`${id}panel`} aria-labelledby={`${id}${current}`} className={css.panel}>
        {children}
      </div>
    </>
  );
}
