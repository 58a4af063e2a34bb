/** Settings of this browser. */

import { isTimeZone, showTimesIn } from "../text/time";
import { createStore, type Store } from "./store";
import type { KeyValueStorage } from "./browserStorage";

export type Theme = "system" | "light" | "dark";

export interface Settings {
  theme: Theme;
  singleKeys: boolean;
  enterSends: boolean;
  /** Notify while the page is hidden. */
  notify: boolean;
  /** The browser failed to show a notification; reset when the setting is enabled again. */
  cannotNotify: boolean;
  /** Play a sound. */
  sound: boolean;
  /** Show the minimap while not all of the map is in view. */
  miniMap: boolean;
  /** Width of the panel of an agent in rem; null: the default. */
  panelWidth: number | null;
  /** In which times are shown, such as Europe/Berlin; empty: that of the browser. */
  timeZone: string;
}

const DEFAULTS: Settings = { theme: "system", singleKeys: true, enterSends: true, notify: false, cannotNotify: false, sound: false, miniMap: true, panelWidth: null, timeZone: "" };
const KEY = "molecule.settings";

export interface SettingsStore extends Store<Settings> {
  change(part: Partial<Settings>): void;
  reread(): void;
}

export function settingsStore(storage: KeyValueStorage): SettingsStore {
  const store = createStore(parse(storage.get(KEY)));
  const showTimes = (): void => showTimesIn(store.get().timeZone || undefined);
  store.subscribe(showTimes);
  showTimes();
  return {
    ...store,
    change: (part) => {
      const next = { ...store.get(), ...part };
      storage.set(KEY, JSON.stringify(next));
      store.set(next);
    },
    reread: () => store.set(parse(storage.get(KEY))),
  };
}

function parse(stored: string | null): Settings {
  let value: Partial<Record<keyof Settings, unknown>> = {};
  try {
    value = (JSON.parse(stored ?? "{}") ?? {}) as typeof value;
  } catch {
    return DEFAULTS;
  }
  const theme = value.theme === "light" || value.theme === "dark" ? value.theme : "system";
  return {
    theme,
    singleKeys: value.singleKeys !== false,
    enterSends: value.enterSends !== false,
    notify: value.notify === true,
    cannotNotify: value.cannotNotify === true,
    sound: value.sound === true,
    miniMap: value.miniMap !== false,
    panelWidth: typeof value.panelWidth === "number" && Number.isFinite(value.panelWidth) ? value.panelWidth : null,
    timeZone: typeof value.timeZone === "string" && isTimeZone(value.timeZone) ? value.timeZone : "",
  };
}
