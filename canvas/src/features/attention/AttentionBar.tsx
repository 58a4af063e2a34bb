/** What needs a person, oldest first, at the bottom of every view. */

import { useState } from "react";
import { useSession, useSettings } from "../../core/app";
import { Dialog } from "../../ui/Dialog";
import { Button } from "../../ui/Button";
import { Icon } from "../../ui/Icon";
import { useNow } from "../../ui/useNow";
import { AgentStatusGlyph } from "../../ui/AgentStatusMark";
import type { Concern } from "./concerns";
import { allClearText } from "../../core/state/problems";
import { useStored } from "../../core/store/store";
import { duration } from "../../core/text/time";
import { countText, plural } from "../../core/text/strings";
import css from "./AttentionBar.module.css";
import { keyOf, type Attention } from "./useAttention";

/** More do not fit on one line; they are in the list behind "more". */
const SHOWN = 3;
/** At most this many are listed; a large organisation could have too many to read and to render. */
const LISTED = 100;

export function AttentionBar({ attention }: { attention: Attention }) {
  return attention.all.length === 0 ? <AllClear /> : <Concerns attention={attention} />;
}

/** Unmounted when nothing needs attention, which also closes its list, so that a later entry does not take the focus. */
function Concerns({ attention: { all, go, next } }: { attention: Attention }) {
  const { singleKeys } = useSettings();
  const [open, setOpen] = useState(false);
  const show = (concern: Concern): void => {
    setOpen(false);
    go(concern);
  };
  return (
    <section className={css.strip} aria-label="Needs attention">
      <ul className={css.list}>
        {all.slice(0, SHOWN).map((concern) => (
          <li key={keyOf(concern)} className={css.shown}>
            <ConcernButton concern={concern} onClick={() => show(concern)} />
          </li>
        ))}
      </ul>
      <Button kind="quiet" onClick={() => setOpen(true)}>
        All {all.length}
      </Button>
      <Button onClick={next} aria-keyshortcuts={singleKeys ? "A" : undefined}>
        Next{singleKeys && <kbd className={css.key}>A</kbd>}
      </Button>
      {open && (
        <Dialog label={`${plural(all.length, "item needs", "items need")} attention`} onClose={() => setOpen(false)}>
          <ul className={css.all}>
            {all.slice(0, LISTED).map((concern) => (
              <li key={keyOf(concern)}>
                <ConcernButton concern={concern} onClick={() => show(concern)} />
              </li>
            ))}
            {all.length > LISTED && <li className={css.rest}>and {plural(all.length - LISTED, "more", "more")}, newer than these</li>}
          </ul>
        </Dialog>
      )}
    </section>
  );
}

/** Unread problem lists are never shown as all clear. */
function AllClear() {
  const { problemLists } = useSession();
  const list = useStored(problemLists.status);
  const isWrong = list.problem !== null;
  const isWell = !isWrong && list.readAt !== null;
  return (
    <section className={css.strip} aria-label="Needs attention">
      <p className={css.calm} data-well={isWell || undefined}>
        <Icon name={isWrong ? "warning" : isWell ? "check" : "clock"} size={14} /> {allClearText(list)}
      </p>
      {isWrong && (
        <Button icon="again" onClick={() => void problemLists.read()}>
          Try again
        </Button>
      )}
    </section>
  );
}

function ConcernButton({ concern, onClick }: { concern: Concern; onClick: () => void }) {
  const now = useNow();
  return (
    <button type="button" className={css.concern} onClick={onClick}>
      <ConcernMark kind={concern.kind} />
      <span className={css.name}>{concern.name}</span>
      <span className={css.what}>{concernText(concern, now)}</span>
    </button>
  );
}

function ConcernMark({ kind }: { kind: Concern["kind"] }) {
  if (kind === "failed" || kind === "degraded") return <AgentStatusGlyph status={kind} />;
  if (kind === "silent") return <AgentStatusGlyph status="offline" />;
  if (kind === "approval") return <AgentStatusGlyph status="waiting" />;
  const icon = kind === "unread" ? "chats" : "warning";
  return (
    <span className={kind === "unread" ? css.mail : css.stuck}>
      <Icon name={icon} size={14} />
    </span>
  );
}

function concernText({ kind, since, unread }: Concern, now: number): string {
  const what = {
    approval: "Waiting for you",
    failed: "Failed",
    degraded: "Degraded",
    silent: "No activity",
    unanswered: `${countText(unread)} unanswered`,
    untaken: `${countText(unread)} not picked up`,
    undelivered: `${countText(unread)} not delivered`,
    work: "Task problem",
    stopped: "Message chain stopped",
    unread: `${countText(unread)} unread`,
  }[kind];
  return now - Date.parse(since) < 60_000 && kind !== "silent" ? `${what}, just now` : `${what} for ${duration(since, now)}`;
}
