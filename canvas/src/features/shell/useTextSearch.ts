/** Texts of messages, delegations, threads and memories that contain the words, searched by the server. */

import { useEffect, useState } from "react";
import { useSession } from "../../core/app";
import { errorText } from "../../core/api/api";
import type { SearchItem } from "../../core/wire";

/** 200 ms: a search for each pause in typing, not for each letter. */
const PAUSE_MS = 200;
/** Shorter words are in almost every text. */
const MIN_CHARACTERS = 2;
const MAX_RESULTS = 20;

export interface TextSearch {
  /** Results of the last words that were searched; they stay while the next ones are. */
  items: readonly SearchItem[];
  isPending: boolean;
  problem: string | null;
}

const NONE: TextSearch = { items: [], isPending: false, problem: null };

export function useTextSearch(words: string): TextSearch {
  const { api, identity } = useSession();
  const [found, setFound] = useState<TextSearch>(NONE);
  const wanted = words.trim();
  useEffect(() => {
    // The server refuses a search without a letter or digit.
    if (wanted.length < MIN_CHARACTERS || !/[\p{L}\p{N}]/u.test(wanted)) {
      setFound(NONE);
      return;
    }
    let current = true;
    setFound((last) => ({ ...last, isPending: true }));
    const timer = setTimeout(() => {
      api.searchTexts(identity.org.id, wanted, MAX_RESULTS).then(
        (page) => current && setFound({ items: page.results, isPending: false, problem: null }),
        (error: unknown) => current && setFound({ items: [], isPending: false, problem: errorText(error) }),
      );
    }, PAUSE_MS);
    return () => {
      current = false;
      clearTimeout(timer);
    };
  }, [api, identity.org.id, wanted]);
  return found;
}
