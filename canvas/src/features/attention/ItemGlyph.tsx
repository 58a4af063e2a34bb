/** The glyph of an item of the inbox, as its agent or its kind has it. */

import type { InboxItem } from "../../core/state/inboxItems";
import { AgentStatusGlyph } from "../../ui/AgentStatusMark";
import { Icon, type IconName } from "../../ui/Icon";
import css from "./AttentionBar.module.css";

const ICONS = { question: "chats", draft: "send", overdue: "clock", task: "checks", undelivered: "warning", chain: "again" } as const satisfies Record<string, IconName>;

export function ItemGlyph({ item }: { item: InboxItem }) {
  if (item.kind === "approval") return <AgentStatusGlyph status="waiting" />;
  if (item.kind === "agent") return <AgentStatusGlyph status={item.agent.status} />;
  return (
    <span className={item.kind === "question" || item.kind === "draft" ? css.mail : css.stuck}>
      <Icon name={ICONS[item.kind]} size={14} />
    </span>
  );
}
