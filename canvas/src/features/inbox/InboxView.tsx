/** Everything that waits for a person, in one list; beside it the open approval. */

import { useEffect, useRef } from "react";
import { useSession } from "../../core/app";
import { INBOX, type InboxPlace } from "../../core/router";
import { countKinds, type InboxItem } from "../../core/state/inboxItems";
import { INBOX_KINDS, type InboxKind } from "../../core/state/inboxKinds";
import { Link } from "../../ui/Link";
import { NARROW, useMedia } from "../../ui/useMedia";
import { ApprovalDetail } from "../approvals/ApprovalDetail";
import { ApprovalList } from "../approvals/ApprovalList";
import { useInboxItems } from "../attention/useInboxItems";
import css from "./InboxView.module.css";
import { ItemList } from "./ItemList";
import { KIND_TEXTS } from "./texts";

export function InboxView({ place }: { place: InboxPlace }) {
  const { problemLists } = useSession();
  const narrow = useMedia(NARROW);
  const { kind, list, open } = place;
  const items = useInboxItems();
  const heading = useRef<HTMLHeadingElement>(null);
  // No event reports that a message has waited for too long.
  useEffect(() => void problemLists.read(), [problemLists]);
  useReturnedFocus(open?.id ?? null);
  return (
    <div className={css.inbox} data-open={open !== null || undefined}>
      {!(narrow && open !== null) && (
        <section className={css.side} aria-label={kind === "approval" ? "Requests" : "Inbox"}>
          <h2 className={css.heading} ref={heading} tabIndex={-1}>
            Inbox
          </h2>
          <Kinds items={items} kind={kind} />
          {kind === "approval" ? (
            <ApprovalList name={list} current={open?.id ?? null} heading={heading} />
          ) : (
            <ItemList key={kind} items={kind === null ? items : items.filter((each) => each.kind === kind)} place={place} heading={heading} />
          )}
        </section>
      )}
      {open !== null && <ApprovalDetail key={open.id} id={open.id} workspaceId={open.workspaceId} kind={kind} list={list} back={narrow} />}
    </div>
  );
}

/** When a request is closed, its row has the focus, as the opener of a dialog has it. */
function useReturnedFocus(open: string | null): void {
  const last = useRef<string | null>(null);
  useEffect(() => {
    const left = last.current;
    last.current = open;
    if (open !== null || left === null || document.activeElement !== document.body) return;
    const row = [...document.querySelectorAll<HTMLElement>("[data-approval]")].find((each) => each.dataset["approval"] === left);
    row?.querySelector("a")?.focus();
  }, [open]);
}

/** Kinds without items are left out; approvals have a history. */
function Kinds({ items, kind }: { items: readonly InboxItem[]; kind: InboxKind | null }) {
  const counts = countKinds(items);
  const shown = INBOX_KINDS.filter((each) => each === "approval" || each === kind || counts.has(each));
  return (
    <nav className={css.kinds} aria-label="Filter inbox">
      {[null, ...shown].map((each) => {
        const count = each === null ? items.length : (counts.get(each) ?? 0);
        return (
          <Link key={each} className={css.kind} to={{ ...INBOX, kind: each }} aria-current={each === kind ? "true" : undefined}>
            {each === null ? "Everything" : KIND_TEXTS[each].label}
            {count > 0 && " "}
            {count > 0 && <span className={css.count}>{count.toLocaleString("en-GB")}</span>}
          </Link>
        );
      })}
    </nav>
  );
}
