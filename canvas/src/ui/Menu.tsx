/** A menu of commands at a point of the window. Arrows move, letters find, Escape closes; the focus returns to the opener. */

import { Fragment, useEffect, useLayoutEffect, useRef, type KeyboardEvent } from "react";
import { Icon } from "./Icon";
import { useLayer } from "./keyboard";
import type { Point } from "./point";
import css from "./Menu.module.css";

export interface MenuItem {
  /** Where labels may repeat. */
  key?: string;
  label: string;
  run: () => void;
  danger?: boolean;
  /** For one of several choices: whether it is the current one. */
  checked?: boolean;
  hint?: string;
  /** Whether a line separates it from the item before. */
  begins?: boolean;
}

interface Props {
  label: string;
  at: Point;
  items: readonly MenuItem[];
  /** What the menu is about, above its items. */
  heading?: { title: string; text: string };
  onClose: () => void;
}

/** Distance that a menu keeps from the edges of the window. */
const MARGIN = 8;

export function Menu({ label, at, items, heading, onClose }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const opener = useRef<Element | null>(null);
  useLayer(onClose);
  useLayoutEffect(() => {
    const element = box.current;
    if (element === null) return;
    const { width, height } = element.getBoundingClientRect();
    element.style.left = `${Math.max(MARGIN, Math.min(at.x, innerWidth - width - MARGIN))}px`;
    element.style.top = `${Math.max(MARGIN, Math.min(at.y, innerHeight - height - MARGIN))}px`;
  }, [at]);
  useEffect(() => {
    opener.current = document.activeElement;
    itemsOf(box.current)[0]?.focus({ preventScroll: true });
    return () => {
      const back = opener.current;
      // A dialog that an item has opened keeps the focus.
      if (back instanceof HTMLElement && back.isConnected && document.querySelector("dialog[open]") === null) back.focus({ preventScroll: true });
    };
  }, []);
  useEffect(() => {
    const close = ({ target }: Event): void => {
      // A press on the button of the menu closes it with its own click.
      const button = opener.current?.closest("[aria-haspopup=menu]");
      if (target instanceof Node && (box.current?.contains(target) || button?.contains(target))) return;
      onClose();
    };
    document.addEventListener("pointerdown", close, true);
    window.addEventListener("resize", onClose);
    window.addEventListener("popstate", onClose);
    return () => {
      document.removeEventListener("pointerdown", close, true);
      window.removeEventListener("resize", onClose);
      window.removeEventListener("popstate", onClose);
    };
  }, [onClose]);

  const onKey = (event: KeyboardEvent): void => {
    if (event.key === "Tab") return onClose();
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const all = itemsOf(box.current);
    const now = all.findIndex((each) => each === document.activeElement);
    const to = nextItem(all, now, event.key);
    if (to === undefined) return;
    event.preventDefault();
    to.focus();
  };
  const choose = (item: MenuItem): void => {
    onClose();
    item.run();
  };
  return (
    <div ref={box} className={css.menu} onContextMenu={(event) => event.preventDefault()}>
      {heading && (
        <p className={css.heading}>
          <bdi className={css.title}>{heading.title}</bdi>
          <bdi className={css.text}>{heading.text}</bdi>
        </p>
      )}
      <div role="menu" aria-label={label} onKeyDown={onKey}>
        {items.map((item) => (
          <Fragment key={item.key ?? item.label}>
            {item.begins && <div role="separator" className={css.line} />}
            <button
              type="button"
              role={item.checked === undefined ? "menuitem" : "menuitemradio"}
              aria-checked={item.checked}
              tabIndex={-1}
              className={`${css.item} ${item.danger ? css.danger : ""}`}
              onClick={() => choose(item)}
            >
              <bdi>{item.label}</bdi>
              {item.checked && <Icon name="check" size={14} />}
              {item.hint !== undefined && <span className={css.hint}>{item.hint}</span>}
            </button>
          </Fragment>
        ))}
      </div>
    </div>
  );
}

function itemsOf(box: HTMLElement | null): HTMLElement[] {
  return [...(box?.querySelectorAll<HTMLElement>("[role^=menuitem]") ?? [])];
}

function nextItem(all: readonly HTMLElement[], now: number, key: string): HTMLElement | undefined {
  const steps: Record<string, number> = { ArrowDown: now + 1, ArrowUp: now < 0 ? -1 : now - 1, Home: 0, End: -1 };
  const step = steps[key];
  if (step !== undefined) return all.at(step % all.length);
  if (key.length !== 1 || key === " ") return undefined;
  const after = [...all.slice(now + 1), ...all.slice(0, now + 1)];
  return after.find((each) => each.textContent.trim().toLowerCase().startsWith(key.toLowerCase()));
}
