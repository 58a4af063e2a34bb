/** What waits for this person: counted for the whole page, in the strip, and reached with single keys. */

import { useEffect } from "react";
import { useSession, useSettings } from "../../core/app";
import { useSingleKeys } from "../../ui/keyboard";
import { AttentionBar } from "./AttentionBar";
import { useAttention } from "./useAttention";
import { useInboxItems } from "./useInboxItems";

export function Attention() {
  const { inbox } = useSession();
  const items = useInboxItems();
  const attention = useAttention(items);
  const { singleKeys } = useSettings();
  useEffect(() => inbox.set(items), [inbox, items]);
  useSingleKeys({ a: attention.next }, singleKeys);
  return <AttentionBar items={items} attention={attention} />;
}
