/** The last messages between agents, for the map: each pair once, for a few seconds. */

import { useEffect, useRef, useState } from "react";
import { useSession } from "../core/app";
import { senderOf } from "../core/state/peerMessages";
import { text } from "../core/state/json";
import type { EventFrame } from "../core/wire";
import { MAX_EDGES, MESSAGE_MS, type PassedMessage } from "./edges";

/** Messages that arrive within this time are drawn together. */
const GATHER_MS = 150;

export function usePassedMessages(): readonly PassedMessage[] {
  const { peerEvents } = useSession();
  const [passed, setPassed] = useState<readonly PassedMessage[]>([]);
  const known = useRef(new Map<string, PassedMessage>());
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | null = null;
    const stop = peerEvents.subscribe(() => {
      if (!addPassed(known.current, peerEvents.get(), Date.now())) return;
      timer ??= setTimeout(() => {
        timer = null;
        setPassed([...known.current.values()]);
      }, GATHER_MS);
    });
    return () => {
      stop();
      if (timer !== null) clearTimeout(timer);
    };
  }, [peerEvents]);
  return passed;
}

/** Add the messages among some events, the newest of a pair last. Returns whether there was one. Mutates the map. */
export function addPassed(known: Map<string, PassedMessage>, frames: readonly EventFrame[], now: number): boolean {
  let found = false;
  for (const frame of frames) {
    // Delegations, their results and approvals are shown otherwise.
    const sourceId = text(frame.payload, "kind") === "peer_agent" ? senderOf(frame) : null;
    if (sourceId === null) continue;
    const key = `${sourceId} ${frame.workspace_id}`;
    known.delete(key);
    known.set(key, { sourceId, targetId: frame.workspace_id, at: now });
    found = true;
  }
  for (const [key, { at }] of known) if (now - at >= MESSAGE_MS || known.size > MAX_EDGES) known.delete(key);
  return found;
}
