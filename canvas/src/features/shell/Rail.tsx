/** Navigation between the views; at the bottom of narrow screens. */

import { useSession, usePlace } from "../../core/app";
import { Badge } from "../../ui/Badge";
import { Icon, type IconName } from "../../ui/Icon";
import { Link } from "../../ui/Link";
import { Logo } from "../../ui/Logo";
import { INBOX, ORG, type Place } from "../../core/router";
import css from "./Rail.module.css";

interface Item {
  to: Place;
  icon: IconName;
  label: string;
  /** On narrow screens the settings link to it. */
  wide?: boolean;
  /** Only for owners. */
  owners?: boolean;
}

const ITEMS: readonly Item[] = [
  { to: ORG, icon: "org", label: "Org" },
  { to: INBOX, icon: "inbox", label: "Inbox" },
  { to: { view: "chats", workspaceId: null, messageId: null }, icon: "chats", label: "Chats" },
  { to: { view: "work", list: "open" }, icon: "checks", label: "Work", wide: true },
  { to: { view: "activity", filters: {} }, icon: "activity", label: "Activity", wide: true },
  { to: { view: "usage", by: "agent" }, icon: "usage", label: "Usage", wide: true },
  { to: { view: "problems" }, icon: "warning", label: "Problems" },
  { to: { view: "instructions", templateId: null }, icon: "book", label: "Instructions", owners: true, wide: true },
  { to: { view: "connect" }, icon: "connect", label: "Connect", wide: true },
  { to: { view: "settings" }, icon: "settings", label: "Settings" },
];

/** `waiting`: items of the inbox. */
export function Rail({ unread, waiting, onShortcuts }: { unread: number; waiting: number; onShortcuts: () => void }) {
  const { view } = usePlace();
  const { identity, problemLists } = useSession();
  return (
    <nav className={css.rail} aria-label="Main">
      <span className={css.mark} title={`Molecule ${identity.version}`}>
        <Logo />
      </span>
      <ul className={css.items}>
        {ITEMS.filter((item) => !item.owners || identity.user.role === "owner").map((item) => (
          <li key={item.label} className={item.label === "Settings" ? css.last : item.wide ? css.wide : undefined}>
            <Link
              to={item.to}
              className={css.item}
              aria-current={item.to.view === (view === "peers" ? "chats" : view) ? "page" : undefined}
              onClick={item.to.view === "problems" && view === "problems" ? () => void problemLists.read() : undefined}
            >
              <Icon name={item.icon} size={20} />
              <span>{item.label}</span>
              {item.label === "Inbox" && waiting > 0 && (
                <span className={css.badge}>
                  <Badge unread={waiting} word="waiting for you" />
                </span>
              )}
              {item.label === "Chats" && unread > 0 && (
                <span className={css.badge}>
                  <Badge unread={unread} />
                </span>
              )}
            </Link>
          </li>
        ))}
      </ul>
      <button type="button" className={`${css.item} ${css.keys}`} onClick={onShortcuts}>
        <Icon name="keys" size={20} />
        <span>Shortcuts</span>
      </button>
    </nav>
  );
}
