/** All chats in sections, with a search. J and K move through them, U marks one as unread. */

import { memo, useCallback, useEffect, useMemo, useRef, useState, type RefObject } from "react";
import { useApp, useData, useSession, useSettings } from "../../core/app";
import { announce } from "../../ui/Announcer";
import { Avatar } from "../../ui/Avatar";
import { Badge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { Link } from "../../ui/Link";
import { Notice } from "../../ui/Notice";
import { Time } from "../../ui/Time";
import { useSingleKeys } from "../../ui/keyboard";
import { useListKeys } from "../../ui/useListKeys";
import type { Chat, Workspace } from "../../core/state/model";
import { plainLine } from "../../core/text/plain";
import css from "./ChatsView.module.css";
import { chatSections, rowsInView, SECTION_TITLES, type ChatSection, type SectionRows } from "./chatSections";

/** Heights in rem; the style sheet has the same values. */
const HEAD = 2.25;
const ROW = 3.75;
/** A longer list renders only the rows in view. */
const MAX_ROWS = 200;
const SPARE_ROWS = 8;

export function ChatList({ current }: { current: string | null }) {
  const { router } = useApp();
  const session = useSession();
  const workspaces = useData((state) => state.workspaces);
  const chats = useData((state) => state.chats);
  const [query, setQuery] = useState("");
  const opened = useRef({ id: null as string | null, wasUnread: false });
  if (opened.current.id !== current) opened.current = { id: current, wasUnread: (chats.get(current ?? "")?.unread ?? 0) > 0 };
  const kept = opened.current.wasUnread ? current : null;
  const sections = useMemo(() => chatSections(workspaces, chats, { query, kept }), [workspaces, chats, query, kept]);
  const scroller = useRef<HTMLDivElement>(null);
  const rows = useRowsInView(scroller, sections);
  useListKeys(scroller);
  useUnreadKey(scroller, current);
  const first = useRef<string | undefined>(undefined);
  first.current = sections[0]?.entries[0]?.workspace.id;
  const openFirst = useCallback((): void => {
    if (first.current !== undefined) router.go({ view: "chats", workspaceId: first.current, messageId: null });
  }, [router]);
  const focusFirst = useCallback((): void => scroller.current?.querySelector("a")?.focus(), []);
  if (workspaces.size === 0) {
    return (
      <section className={css.side} aria-label="Conversations">
        <Notice icon="chats" title="No chats yet" actions={<Button onClick={() => router.go({ view: "connect" })}>Connect an agent</Button>}>
          Each agent in the organisation has a chat.
        </Notice>
      </section>
    );
  }
  return (
    <section className={css.side} aria-label="Conversations">
      <h2 className={css.heading}>Chats</h2>
      <SearchField query={query} onChange={setQuery} onEnter={openFirst} onDown={focusFirst} />
      <div className={css.scroller} ref={scroller}>
        {sections.map((section, at) => (
          <Section key={section.name} section={section} rows={rows?.[at] ?? null} current={current}>
            {section.name === "unread" && query === "" && section.entries.some(({ chat }) => (chat?.unread ?? 0) > 0) && (
              <Button kind="quiet" onClick={() => session.markAllRead()}>
                Mark all read
              </Button>
            )}
          </Section>
        ))}
        {sections.length === 0 && <p className={css.none}>No agent matches “{query}”.</p>}
      </div>
    </section>
  );
}

interface SearchFieldProps {
  query: string;
  onChange: (query: string) => void;
  onEnter: () => void;
  onDown: () => void;
}

/** Memoized: on each render React sets the attributes of an input again. */
const SearchField = memo(function SearchField({ query, onChange, onEnter, onDown }: SearchFieldProps) {
  return (
    <form
      className={css.search}
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        onEnter();
      }}
    >
      <input
        type="search"
        aria-label="Search chats"
        placeholder="Search chats"
        value={query}
        onChange={(event) => onChange(event.target.value)}
        onKeyDown={(event) => {
          if (event.key !== "ArrowDown") return;
          event.preventDefault();
          onDown();
        }}
      />
    </form>
  );
});

function Section({ section: { name, entries }, rows, current, children }: { section: ChatSection; rows: SectionRows | null; current: string | null; children: React.ReactNode }) {
  const shown = rows === null ? entries : entries.slice(rows.from, rows.to);
  const from = rows?.from ?? 0;
  return (
    <section aria-labelledby={`chats-${name}`}>
      <header className={css.section}>
        <h3 id={`chats-${name}`}>{SECTION_TITLES[name]}</h3>
        {children}
      </header>
      <ul className={css.list} style={rows === null ? undefined : { height: `${entries.length * ROW}rem` }}>
        {shown.map(({ workspace, chat }, at) => (
          <li
            key={workspace.id}
            className={rows === null ? undefined : css.virtual}
            style={rows === null ? undefined : { transform: `translateY(${(from + at) * ROW}rem)` }}
            aria-posinset={rows === null ? undefined : from + at + 1}
            aria-setsize={rows === null ? undefined : entries.length}
          >
            <Entry workspace={workspace} chat={chat} current={workspace.id === current} />
          </li>
        ))}
      </ul>
    </section>
  );
}

function Entry({ workspace, chat, current }: { workspace: Workspace; chat: Chat | undefined; current: boolean }) {
  const last = chat?.last ?? null;
  const unread = chat?.unread ?? 0;
  return (
    <Link
      to={{ view: "chats", workspaceId: workspace.id, messageId: null }}
      className={`${css.entry} ${unread > 0 ? css.unread : ""}`}
      aria-current={current ? "page" : undefined}
      data-chat={workspace.id}
    >
      <Avatar id={workspace.id} name={workspace.name} size="large" />
      <span className={css.words}>
        <span className={css.line}>
          <span className={css.name}>{workspace.name}</span>
          {last !== null && <Time at={last.at} short className={css.time} />}
        </span>
        <span className={css.line}>
          <span className={css.last} dir="auto">
            {last === null ? "No messages yet" : (last.author === "user" ? "You: " : "") + plainLine(last.text)}
          </span>
          <Badge unread={unread} />
        </span>
      </span>
    </Link>
  );
}

/** Null for a short list: all its rows are rendered. */
function useRowsInView(scroller: RefObject<HTMLElement | null>, sections: readonly ChatSection[]): readonly SectionRows[] | null {
  const [view, setView] = useState({ top: 0, height: 800, rem: 16 });
  const virtual = sections.reduce((sum, { entries }) => sum + entries.length, 0) > MAX_ROWS;
  useEffect(() => {
    const element = scroller.current;
    if (!virtual || element === null) return;
    const read = (): void => {
      const rem = Number.parseFloat(getComputedStyle(document.documentElement).fontSize) || 16;
      setView({ top: element.scrollTop, height: element.clientHeight, rem });
    };
    const sizes = new ResizeObserver(read);
    sizes.observe(element);
    element.addEventListener("scroll", read, { passive: true });
    return () => {
      sizes.disconnect();
      element.removeEventListener("scroll", read);
    };
  }, [scroller, virtual]);
  return useMemo(
    () => (virtual ? rowsInView(sections, { top: view.top / view.rem, height: view.height / view.rem }, { head: HEAD, row: ROW, spare: SPARE_ROWS }) : null),
    [virtual, sections, view],
  );
}

/** U marks the focused chat as unread, or else the open one, which is closed: an open chat is read. */
function useUnreadKey(scroller: RefObject<HTMLElement | null>, current: string | null): void {
  const session = useSession();
  const { router } = useApp();
  const { singleKeys } = useSettings();
  const marked = useRef<string | null>(null);
  useEffect(() => {
    // Its row is in another section now, and has lost the focus.
    if (marked.current === null || document.activeElement !== document.body) return;
    scroller.current?.querySelector<HTMLElement>(`[data-chat="${CSS.escape(marked.current)}"]`)?.focus();
    marked.current = null;
  });
  const mark = (): void => {
    const focused = document.activeElement instanceof HTMLElement && scroller.current?.contains(document.activeElement) === true ? document.activeElement.dataset["chat"] : undefined;
    const workspaceId = focused ?? current;
    if (workspaceId === null) return announce("No chat selected");
    if (workspaceId === current) router.go({ view: "chats", workspaceId: null, messageId: null });
    marked.current = workspaceId;
    session.markUnread(workspaceId).then(
      (done) => announce(done ? "Marked as unread" : "Nothing to mark as unread"),
      () => announce("Could not mark as unread"),
    );
  };
  useSingleKeys({ u: mark }, singleKeys);
}
