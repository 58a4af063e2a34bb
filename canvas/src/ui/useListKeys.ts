/** J and K move through a list: through its links, of which Enter opens one as for every link, or through what else is named. */

import type { RefObject } from "react";
import { useSettings } from "../core/app";
import { useSingleKeys } from "./keyboard";

export function useListKeys(list: RefObject<HTMLElement | null>, selector = "a"): void {
  const { singleKeys } = useSettings();
  const step = (by: number): void => {
    const stops = [...(list.current?.querySelectorAll<HTMLElement>(selector) ?? [])];
    const focused = stops.findIndex((stop) => stop.contains(document.activeElement));
    const from = focused === -1 ? stops.findIndex((stop) => stop.hasAttribute("aria-current")) : focused;
    stops[Math.max(0, Math.min(stops.length - 1, from + by))]?.focus();
  };
  useSingleKeys({ j: () => step(1), k: () => step(-1) }, singleKeys);
}
