/** An ARIA tree: one row has the tab stop, arrows move it, letters find names. A long tree renders only its visible rows. */

import { memo, useCallback, useEffect, useLayoutEffect, useRef, useState, type KeyboardEvent } from "react";
import { useData } from "../../core/app";
import { Badge } from "../../ui/Badge";
import { Icon } from "../../ui/Icon";
import { AgentStatusGlyph, AgentStatusText } from "../../ui/AgentStatusMark";
import { NARROW, useMedia } from "../../ui/useMedia";
import { countUnanswered } from "../../core/state/obligationUpdates";
import { typeAhead, type Row } from "./outlineRows";
import type { OrgNode } from "../../core/state/model";
import css from "./Outline.module.css";
import { useRowWindow } from "../../ui/useRowWindow";
import { useAgentStatus } from "../../core/state/useAgentStatus";

const TYPING_MS = 700;

interface Props {
  rows: readonly Row[];
  orgNodes: ReadonlyMap<string, OrgNode>;
  labelledBy: string;
  selected: string | null;
  onSelect: (id: string) => void;
  onOpen: (id: string) => void;
  onExpand: (id: string, expanded: boolean) => void;
}

export function OutlineTree({ rows, orgNodes, labelledBy, selected, onSelect, onOpen, onExpand }: Props) {
  const scroller = useRef<HTMLDivElement>(null);
  const narrow = useMedia(NARROW);
  const [active, setActive] = useState(selected);
  const found = rows.findIndex((row) => row.id === active);
  const activeAt = found === -1 ? 0 : found;
  const { shown, virtual, rowHeight, reveal } = useRowWindow(scroller, rows.length, activeAt, narrow ? 2.5 : 2);
  const wantsFocus = useRef(false);
  const typed = useRef({ text: "", at: 0 });

  useEffect(() => {
    if (selected === null) return;
    setActive(selected);
    const at = rows.findIndex((row) => row.id === selected);
    if (at !== -1) reveal(at);
    // Only a new selection scrolls; a row that appears must not move the list.
  }, [selected]);

  useLayoutEffect(() => {
    if (!wantsFocus.current) return;
    wantsFocus.current = false;
    scroller.current?.querySelector<HTMLElement>("[role=treeitem][tabindex='0']")?.focus({ preventScroll: true });
  });

  const move = (to: number): void => {
    const row = rows[Math.max(0, Math.min(rows.length - 1, to))];
    if (!row) return;
    wantsFocus.current = true;
    setActive(row.id);
    reveal(rows.indexOf(row));
    onSelect(row.id);
  };

  const sideways = (row: Row, expand: boolean): void => {
    if (row.expanded === !expand) onExpand(row.id, expand);
    else if (expand && row.expanded) move(activeAt + 1);
    else if (!expand) move(rows.findLastIndex((each, at) => at < activeAt && each.level < row.level));
  };

  const search = (key: string, now: number): void => {
    const text = now - typed.current.at > TYPING_MS ? key : typed.current.text + key;
    typed.current = { text, at: now };
    move(typeAhead(rows, orgNodes, activeAt, text));
  };

  const onKey = (event: KeyboardEvent): void => {
    const row = rows[activeAt];
    if (!row || event.ctrlKey || event.metaKey || event.altKey) return;
    const actions: Record<string, () => void> = {
      ArrowDown: () => move(activeAt + 1),
      ArrowUp: () => move(activeAt - 1),
      ArrowRight: () => sideways(row, true),
      ArrowLeft: () => sideways(row, false),
      Home: () => move(0),
      End: () => move(rows.length - 1),
      Enter: () => onOpen(row.id),
      " ": () => onOpen(row.id),
    };
    const action = actions[event.key] ?? (isLetter(event.key) ? () => search(event.key, event.timeStamp) : undefined);
    if (!action) return;
    event.preventDefault();
    action();
  };

  const press = useCallback(
    (id: string, expanded: boolean | null, onTwist: boolean) => {
      setActive(id);
      if (onTwist && expanded !== null) onExpand(id, !expanded);
      else onOpen(id);
    },
    [onExpand, onOpen],
  );

  return (
    <div className={css.scroller} ref={scroller}>
      <div
        role="tree"
        aria-labelledby={labelledBy}
        className={css.rows}
        style={virtual ? { height: rows.length * rowHeight } : undefined}
        onKeyDown={onKey}
      >
        {shown.map((at) => {
          const row = rows[at];
          return (
            row && (
              <TreeRow
                key={row.id}
                {...row}
                top={virtual ? at * rowHeight : null}
                isActive={at === activeAt}
                isSelected={row.id === selected}
                onPress={press}
              />
            )
          );
        })}
      </div>
    </div>
  );
}

function isLetter(key: string): boolean {
  return key.length === 1 && /[\p{L}\p{N}]/u.test(key);
}

interface RowProps extends Row {
  top: number | null;
  isActive: boolean;
  isSelected: boolean;
  onPress: (id: string, expanded: boolean | null, onTwist: boolean) => void;
}

const TreeRow = memo(function TreeRow({ id, level, position, siblings, expanded, top, isActive, isSelected, onPress }: RowProps) {
  const workspace = useData((state) => state.workspaces.get(id));
  const unread = useData((state) => state.chats.get(id)?.unread ?? 0);
  const unanswered = useData((state) => countUnanswered(state.unanswered.get(id)));
  const status = useAgentStatus(workspace);
  if (!workspace) return null;
  const place: React.CSSProperties & Record<"--level", number> = { "--level": level };
  if (top !== null) place.transform = `translateY(${top}px)`;
  return (
    <div
      role="treeitem"
      data-agent={id}
      aria-level={level}
      aria-posinset={position}
      aria-setsize={siblings}
      aria-expanded={expanded ?? undefined}
      aria-selected={isSelected}
      tabIndex={isActive ? 0 : -1}
      className={`${css.row} ${top === null ? "" : css.virtual}`}
      style={place}
      onClick={(event) => onPress(id, expanded, event.target instanceof Element && event.target.closest(`.${css.twist}`) !== null)}
    >
      <span className={expanded === null ? css.leaf : css.twist} aria-hidden="true">
        {expanded !== null && <Icon name="right" size={12} />}
      </span>
      <AgentStatusGlyph status={status} />
      <span className={css.name}>{workspace.name}</span>
      <Badge unread={unanswered} word="unanswered" wrong />
      <Badge unread={unread} />
      {/* Most agents are online: the glyph says so, and the name has the room. */}
      <span className={status === "online" ? "visually-hidden" : css.word}>
        <AgentStatusText workspace={workspace} status={status} />
      </span>
    </div>
  );
});
