/** J and K move through the links of a list; Enter opens one, as for every link. */

import type { RefObject } from "react";
import { useSettings } from "../core/app";
import { useSingleKeys } from "./keyboard";

export function useListKeys(list: RefObject<HTMLElement | null>): void {
  const { singleKeys } = useSettings();
  const step = (by: number): void => {
    const links = [...(list.current?.querySelectorAll<HTMLAnchorElement>("a") ?? [])];
    const focused = links.findIndex((link) => link === document.activeElement);
    const from = focused === -1 ? links.findIndex((link) => link.hasAttribute("aria-current")) : focused;
    links[Math.max(0, Math.min(links.length - 1, from + by))]?.focus();
  };
  useSingleKeys({ j: () => step(1), k: () => step(-1) }, singleKeys);
}
