/** What waits for this person, oldest first, at the bottom of every view: one entry for each agent of the inbox. */

import { useApp, useSession, useSettings, useThrottledData } from "../../core/app";
import { Button } from "../../ui/Button";
import { Icon } from "../../ui/Icon";
import { useNow } from "../../ui/useNow";
import { INBOX } from "../../core/router";
import type { InboxItem } from "../../core/state/inboxItems";
import { allClearText } from "../../core/state/problems";
import { useStored } from "../../core/store/store";
import { duration } from "../../core/text/time";
import { countText } from "../../core/text/strings";
import css from "./AttentionBar.module.css";
import { ItemGlyph } from "./ItemGlyph";
import { unreadTotal } from "./unread";
import type { Attention } from "./useAttention";
import { useNextUnread } from "./useNextUnread";

/** More do not fit on one line. */
const SHOWN = 3;

export function AttentionBar({ items, attention }: { items: readonly InboxItem[]; attention: Attention }) {
  const { router } = useApp();
  const { singleKeys } = useSettings();
  if (items.length === 0) return <AllClear />;
  return (
    <section className={css.strip} aria-label="Needs attention">
      <ul className={css.list}>
        {agentsOf(items).slice(0, SHOWN).map(({ first, more }) => (
          <li key={first.workspaceId} className={css.shown}>
            <ItemButton item={first} more={more} onClick={() => attention.go(first)} />
          </li>
        ))}
      </ul>
      <Unread />
      <Button kind="quiet" onClick={() => router.go(INBOX)}>
        All {countText(items.length)}
      </Button>
      <Button onClick={attention.next} aria-keyshortcuts={singleKeys ? "A" : undefined}>
        Next{singleKeys && <kbd className={css.key}>A</kbd>}
      </Button>
    </section>
  );
}

/** Each agent once, with its oldest item and how many more it has. */
function agentsOf(items: readonly InboxItem[]): readonly { first: InboxItem; more: number }[] {
  const found = new Map<string, { first: InboxItem; more: number }>();
  for (const item of items) {
    const known = found.get(item.workspaceId);
    if (known === undefined) found.set(item.workspaceId, { first: item, more: 0 });
    else known.more += 1;
  }
  return [...found.values()];
}

/** Unread problem lists are never shown as all clear. */
function AllClear() {
  const { problemLists } = useSession();
  const list = useStored(problemLists.status);
  const unread = useThrottledData((state) => unreadTotal(state.chats));
  const isWrong = list.problem !== null;
  const isWell = !isWrong && list.readAt !== null;
  return (
    <section className={css.strip} aria-label="Needs attention">
      <p className={css.calm} data-well={isWell || undefined}>
        <Icon name={isWrong ? "warning" : isWell ? "check" : "clock"} size={14} /> {allClearText(list, unread)}
      </p>
      {isWrong && (
        <Button icon="again" onClick={() => void problemLists.read()}>
          Try again
        </Button>
      )}
      <Unread />
    </section>
  );
}

/** Unread messages ask for nothing, so they are not in the inbox. */
function Unread() {
  const next = useNextUnread();
  const { singleKeys } = useSettings();
  const unread = useThrottledData((state) => unreadTotal(state.chats));
  if (unread === 0) return null;
  return (
    <Button kind="quiet" className={css.unread ?? ""} onClick={next} aria-keyshortcuts={singleKeys ? "N" : undefined}>
      {countText(unread)} unread{singleKeys && <kbd className={css.key}>N</kbd>}
    </Button>
  );
}

function ItemButton({ item, more, onClick }: { item: InboxItem; more: number; onClick: () => void }) {
  const now = useNow();
  return (
    <button type="button" className={css.concern} onClick={onClick}>
      <ItemGlyph item={item} />
      <span className={css.name}>{item.name}</span>
      <span className={css.what}>
        {now - Date.parse(item.since) < 60_000 ? `${item.text}, just now` : `${item.text} for ${duration(item.since, now)}`}
        {more > 0 && `, +${more}`}
      </span>
    </button>
  );
}
