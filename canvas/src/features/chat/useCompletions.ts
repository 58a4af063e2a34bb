/** Completion of the text before the caret: the names of agents, and commands. The keys belong to the list while it is open. */

import { useEffect, useId, useMemo, useState, type KeyboardEvent, type RefObject } from "react";
import { useApp, useSession } from "../../core/app";
import { announce } from "../../ui/Announcer";
import { plural } from "../../core/text/strings";
import { completionAt, matching, withMention, type Candidate } from "./completions";
import { chatCommands, type ChatCommand } from "./commands";

interface Options {
  workspaceId: string;
  words: string;
  field: RefObject<HTMLTextAreaElement | null>;
  onText: (words: string, caret: number) => void;
  onCommand: (command: ChatCommand) => void;
}

export interface Completions {
  open: boolean;
  kind: "agent" | "command";
  shown: readonly Candidate[];
  active: number;
  listId: string;
  optionId: (at: number) => string;
  onKey: (event: KeyboardEvent) => boolean;
  onSelect: () => void;
  choose: (at: number) => void;
  close: () => void;
}

const NOTHING: readonly Candidate[] = [];

export function useCompletions({ workspaceId, words, field, onText, onCommand }: Options): Completions {
  const session = useSession();
  const { router } = useApp();
  const listId = useId();
  const [caret, setCaret] = useState<number | null>(null);
  /** The text for which the list was closed. */
  const [closedAt, setClosedAt] = useState<string | null>(null);
  const [active, setActive] = useState(0);
  const completion = caret === null ? null : completionAt(words, caret);
  const [kind, query] = [completion?.kind ?? null, completion?.query ?? ""];
  // Read when the list opens, not with each event of the organisation.
  const candidates = useMemo(() => {
    const state = session.data.get();
    if (kind === null || state === null) return NOTHING;
    return kind === "command" ? chatCommands({ session, router, workspaceId }) : agentsBeside(state.workspaces, workspaceId);
  }, [session, router, workspaceId, kind]);
  const shown = useMemo(() => matching(candidates, query), [candidates, query]);
  const open = completion !== null && shown.length > 0 && closedAt !== words;
  useEffect(() => setActive(0), [kind, query]);
  useEffect(() => {
    if (open) announce(`${plural(shown.length, "suggestion")}, use the arrow keys`);
  }, [open, shown.length]);

  const choose = (at: number): void => {
    const one = shown[at];
    if (one === undefined || completion === null) return;
    field.current?.focus();
    if (completion.kind === "command") return onCommand(one as ChatCommand);
    const next = withMention(words, completion, one.name);
    setCaret(null);
    onText(next.text, next.caret);
  };
  const onKey = (event: KeyboardEvent): boolean => {
    if (!open || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return false;
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step !== 0) setActive((at) => (at + step + shown.length) % shown.length);
    else if (event.key === "Enter" || event.key === "Tab") choose(active);
    else if (event.key === "Escape") setClosedAt(words);
    else return false;
    event.preventDefault();
    return true;
  };
  return {
    open,
    kind: kind ?? "agent",
    shown,
    active,
    listId,
    optionId: (at) => `${listId}-${at}`,
    onKey,
    onSelect: () => setCaret(field.current?.selectionEnd ?? null),
    choose,
    close: () => setCaret(null),
  };
}

/** The agents that the agent of this chat can reach itself: those of its level, its parent and its children. */
function agentsBeside(workspaces: ReadonlyMap<string, { id: string; name: string; role: string | null; parent_id: string | null }>, workspaceId: string): readonly Candidate[] {
  const own = workspaces.get(workspaceId);
  const isNear = ({ id, parent_id }: { id: string; parent_id: string | null }): boolean =>
    own !== undefined && (parent_id === own.parent_id || parent_id === own.id || own.parent_id === id);
  const near = [...workspaces.values()].filter((each) => each.id !== workspaceId && isNear(each));
  return near.sort((one, other) => one.name.localeCompare(other.name)).map(({ id, name, role }) => ({ id, name, hint: role ?? "" }));
}
