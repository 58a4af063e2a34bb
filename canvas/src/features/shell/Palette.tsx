/** Find agents, chats, open delegations and commands by a few letters, and all texts by their words. */

import { Fragment, useId, useMemo, useState, type KeyboardEvent } from "react";
import { useApp, useData, useSession } from "../../core/app";
import { Badge } from "../../ui/Badge";
import { Dialog } from "../../ui/Dialog";
import { Icon } from "../../ui/Icon";
import { isComposing } from "../../ui/keyboard";
import { AgentStatusGlyph } from "../../ui/AgentStatusMark";
import { INBOX, ORG, type Place } from "../../core/router";
import { search, type Command, type SearchResult } from "./paletteSearch";
import type { Workspace } from "../../core/state/model";
import { useAgentStatus } from "../../core/state/useAgentStatus";
import type { SearchItem } from "../../core/wire";
import { groupTexts, placeOfText, snippetParts, titleOf } from "./textResults";
import { useTextSearch } from "./useTextSearch";
import { shownTask } from "../../core/state/delegations";
import { openDelegations } from "../../core/state/delegationLists";
import css from "./Palette.module.css";

interface PaletteAction extends Command {
  run: () => void;
}

export function Palette({ onClose }: { onClose: () => void }) {
  const { router } = useApp();
  const workspaces = useData((state) => state.workspaces);
  const chats = useData((state) => state.chats);
  const [words, setWords] = useState("");
  const [at, setAt] = useState(0);
  const id = useId();
  const commands = useCommands();
  const delegations = useData((state) => openDelegations(state.delegations));
  const own = useMemo(() => search(words, workspaces, chats, commands, delegations), [words, workspaces, chats, commands, delegations]);
  const texts = useTextSearch(words);
  const found = useMemo(() => {
    const listed = new Set(own.flatMap((each) => (each.kind === "work" ? [each.delegation.id] : [])));
    return [...own, ...groupTexts(texts.items, listed).map(textResult)];
  }, [own, texts.items]);
  const current = Math.min(at, found.length - 1);

  const choose = (item: Result | undefined): void => {
    if (!item) return;
    onClose();
    if (item.kind === "command") commands.find((each) => each.name === item.command.name)?.run();
    else router.go(placeOf(item));
  };
  const onKey = (event: KeyboardEvent): void => {
    if (isComposing(event.nativeEvent)) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined && found.length > 0) {
      event.preventDefault();
      const next = (current + step + found.length) % found.length;
      setAt(next);
      document.getElementById(`${id}${next}`)?.scrollIntoView({ block: "nearest" });
    } else if (event.key === "Enter") {
      event.preventDefault();
      choose(found[current]);
    }
  };

  return (
    <Dialog label="Search agents, chats, texts and commands" heading={false} onClose={onClose}>
      <div className={css.find}>
        <Icon name="search" />
        <input
          type="text"
          role="combobox"
          className={css.input}
          aria-label="Search agents, chats, texts and commands"
          aria-expanded={found.length > 0}
          aria-controls={`${id}list`}
          aria-activedescendant={found.length > 0 ? `${id}${current}` : undefined}
          aria-autocomplete="list"
          autoComplete="off"
          placeholder="Search agents, chats, texts and commands"
          autoFocus
          value={words}
          onChange={(event) => {
            setWords(event.target.value);
            setAt(0);
          }}
          onKeyDown={onKey}
        />
      </div>
      {(found.length === 0 || texts.problem !== null) && (
        <p className={css.none} role="status">
          {texts.problem ?? (texts.isPending ? "Searching…" : `No results for “${words.trim()}”.`)}
        </p>
      )}
      <ul id={`${id}list`} role="listbox" aria-label="Results" className={css.list}>
        {found.map((item, index) => (
          <Fragment key={item.key}>
            {beginsGroup(found, index) && (
              <li role="presentation" aria-hidden="true" className={css.group}>
                {item.kind === "text" && titleOf(item.item.kind)}
              </li>
            )}
          <li
            id={`${id}${index}`}
            role="option"
            aria-selected={index === current}
            className={css.item}
            onClick={() => choose(item)}
            onMouseMove={() => setAt(index)}
          >
            <Content item={item} />
          </li>
          </Fragment>
        ))}
      </ul>
    </Dialog>
  );
}

type Result = SearchResult | { kind: "text"; key: string; item: SearchItem };

function textResult(item: SearchItem): Result {
  return { kind: "text", key: `text ${item.kind} ${item.id} ${item.ordinal ?? ""}`, item };
}

/** Whether a heading goes before a result: before the first text of each kind. */
function beginsGroup(found: readonly Result[], index: number): boolean {
  const [item, before] = [found[index], found[index - 1]];
  return item?.kind === "text" && !(before?.kind === "text" && before.item.kind === item.item.kind);
}

function placeOf(item: Exclude<Result, { kind: "command" }>): Place {
  if (item.kind === "text") return placeOfText(item.item);
  if (item.kind === "work") return { view: "delegation", id: item.delegation.id, node: null };
  if (item.kind === "chat") return { view: "chats", workspaceId: item.workspace.id, messageId: null };
  return { view: "org", focus: item.workspace.id, panel: "chat", filter: "" };
}

function Content({ item }: { item: Result }) {
  if (item.kind === "text") {
    return (
      <>
        <span className={css.snippet} dir="auto">
          {snippetParts(item.item.snippet).map((part, index) => (part.isMatch ? <mark key={index}>{part.text}</mark> : part.text))}
        </span>
        <span className={css.hint}>{item.item.workspaces.map((each) => each.name ?? "Removed agent").join(", ")}</span>
      </>
    );
  }
  if (item.kind === "command") {
    return (
      <>
        <Icon name="right" size={14} />
        <span className={css.name}>{item.command.name}</span>
        <span className={css.hint}>{item.command.hint}</span>
      </>
    );
  }
  if (item.kind === "work") {
    return (
      <>
        <Icon name="below" size={14} />
        <span className={css.name}>{shownTask(item.delegation.task)}</span>
        <span className={css.hint}>Task for {item.target}</span>
      </>
    );
  }
  return (
    <>
      {item.kind === "chat" ? <Icon name="chats" size={14} /> : <StatusOf workspace={item.workspace} />}
      <span className={css.name}>{item.workspace.name}</span>
      <Badge unread={item.unread} />
      <span className={css.hint}>{item.kind === "chat" ? "Chat" : (item.workspace.role ?? "Agent")}</span>
    </>
  );
}

function StatusOf({ workspace }: { workspace: Workspace }) {
  return <AgentStatusGlyph status={useAgentStatus(workspace)} />;
}

function useCommands(): readonly PaletteAction[] {
  const { router, settings } = useApp();
  const owner = useSession().identity.user.role === "owner";
  return useMemo(() => {
    const goTo = (name: string, place: Place): PaletteAction => ({ name, hint: "Go to", run: () => router.go(place) });
    const theme = (name: string, choice: "light" | "dark" | "system"): PaletteAction => ({
      name,
      hint: "Theme",
      run: () => settings.change({ theme: choice }),
    });
    return [
      goTo("Organisation", ORG),
      goTo("Inbox", INBOX),
      goTo("Chats", { view: "chats", workspaceId: null, messageId: null }),
      goTo("Work", { view: "work", list: "open" }),
      goTo("Schedules", { view: "schedules" }),
      goTo("Activity", { view: "activity", filters: {} }),
      goTo("Usage", { view: "usage", by: "agent" }),
      goTo("Problems", { view: "problems" }),
      ...(owner ? [goTo("Instructions", { view: "instructions", templateId: null })] : []),
      goTo("Connect an agent", { view: "connect" }),
      goTo("Settings", { view: "settings" }),
      theme("Light theme", "light"),
      theme("Dark theme", "dark"),
      theme("System theme", "system"),
    ];
  }, [router, settings, owner]);
}
