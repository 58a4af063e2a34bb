/** Set the colour scheme (the person's setting, otherwise the system's) where the style sheet reads it. */

import { createStore, useStored, type Store } from "../core/store/store";
import type { SettingsStore } from "../core/store/settings";

type Scheme = "light" | "dark";

const scheme: Store<Scheme> = createStore<Scheme>("light");

export function followTheme(settings: SettingsStore): void {
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const apply = (): void => {
    const { theme } = settings.get();
    const next = theme === "system" ? (system.matches ? "dark" : "light") : theme;
    document.documentElement.dataset["theme"] = next;
    scheme.set(next);
  };
  settings.subscribe(apply);
  system.addEventListener("change", apply);
  apply();
}

/** For canvas painting, which has no style sheet. */
export function useScheme(): Scheme {
  return useStored(scheme);
}
