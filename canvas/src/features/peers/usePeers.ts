/** The agents that exchanged messages with one agent, kept current by events while they are shown. */

import { useCallback, useEffect, useRef, useState } from "react";
import { useSession } from "../../core/app";
import { errorText } from "../../core/api/api";
import { isMessageOf } from "../../core/state/peerMessages";
import type { ConversationPeer } from "../../core/wire";

/** Events that arrive within this time are handled together: the list is read again for them. */
const GATHER_MS = 250;
/** The server looks at each agent of the organisation for the list: in a large one it is read less often. */
const LARGE = 2_000;
const LARGE_GATHER_MS = 2_000;

interface Peers {
  peers: readonly ConversationPeer[];
  loaded: boolean;
  /** There are older ones. */
  more: boolean;
  problem: string | null;
  readMore: () => void;
  retry: () => void;
}

interface Known {
  peers: readonly ConversationPeer[];
  loaded: boolean;
  more: boolean;
}

const NONE: Known = { peers: [], loaded: false, more: false };

/** The component that uses it must have the workspace as its key. */
export function usePeers(workspaceId: string): Peers {
  const session = useSession();
  const [known, setKnown] = useState(NONE);
  const [problem, setProblem] = useState<string | null>(null);
  const read = useCallback(
    async (before?: string): Promise<void> => {
      try {
        const page = await session.api.peers(workspaceId, before);
        session.peerReads.noteListed(workspaceId, page.peers);
        setKnown((now) => withPage(now, page.peers, { more: !page.reached_end, isFirst: before === undefined }));
        setProblem(null);
      } catch (error) {
        setProblem(errorText(error));
      }
    },
    [session, workspaceId],
  );
  const timer = useRef<ReturnType<typeof setTimeout> | null>(null);
  useEffect(() => {
    void read();
    const stop = session.peerEvents.subscribe(() => {
      const frames = session.peerEvents.get();
      if (frames.length > 0 && !frames.some((frame) => isMessageOf(frame, workspaceId))) return;
      const large = (session.data.get()?.workspaces.size ?? 0) > LARGE;
      timer.current ??= setTimeout(
        () => {
          timer.current = null;
          void read();
        },
        large ? LARGE_GATHER_MS : GATHER_MS,
      );
    });
    return () => {
      stop();
      if (timer.current !== null) clearTimeout(timer.current);
      timer.current = null;
    };
  }, [session, workspaceId, read]);
  const last = known.peers.at(-1)?.workspace_id;
  return { ...known, problem, readMore: () => void read(last), retry: () => void read() };
}

/** Each peer once, last message first. */
export function withPage({ peers, more }: Known, page: readonly ConversationPeer[], { more: moreInPage, isFirst }: { more: boolean; isFirst: boolean }): Known {
  const ids = new Set(page.map(({ workspace_id }) => workspace_id));
  const rest = peers.filter(({ workspace_id }) => !ids.has(workspace_id));
  const all = [...page, ...rest].sort((one, other) => (one.last.timestamp > other.last.timestamp ? -1 : one.last.timestamp < other.last.timestamp ? 1 : 0));
  // A first page says nothing about what follows the pages that were read before.
  return { peers: all, loaded: true, more: isFirst && rest.length > 0 ? more : moreInPage };
}
