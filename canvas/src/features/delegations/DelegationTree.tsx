/** The tree of delegations as an ARIA tree: one row has the tab stop, arrows move and collapse, Enter opens. New rows
 * collapse nothing that is open. */

import { memo, useLayoutEffect, useRef, useState, type KeyboardEvent } from "react";
import { useThrottledData, useData } from "../../core/app";
import { Icon } from "../../ui/Icon";
import { DelegationMark } from "./DelegationMark";
import { delegationState, shownTask, type DelegationState, type Heartbeat } from "../../core/state/delegations";
import { ownSeconds, sums, type DelegationNode, type TreeRow } from "./tree";
import { plainLine } from "../../core/text/plain";
import { plural } from "../../core/text/strings";
import { seconds, stopwatch } from "../../core/text/time";
import { useNameOf } from "./NodeDetail";
import { failedText } from "./texts";
import css from "./DelegationView.module.css";

const NO_ROWS: ReadonlyMap<string, Heartbeat> = new Map();

interface Props {
  rows: readonly TreeRow[];
  now: number;
  onOpen: (id: string) => void;
  onFold: (id: string, folded: boolean) => void;
}

export function DelegationTree({ rows, now, onOpen, onFold }: Props) {
  const tree = useRef<HTMLDivElement>(null);
  const [active, setActive] = useState<string | null>(null);
  const wantsFocus = useRef(false);
  const stuckSeconds = useData((state) => state.stuckSeconds);
  const runs = rows.some(({ branch }) => branch.node.settledAt === null);
  const targets = useThrottledData((state): ReadonlyMap<string, Heartbeat> => (runs ? state.workspaces : NO_ROWS));
  const at = Math.max(0, rows.findIndex(({ branch }) => branch.node.id === active));

  useLayoutEffect(() => {
    if (!wantsFocus.current) return;
    wantsFocus.current = false;
    tree.current?.querySelector<HTMLElement>("[tabindex='0']")?.focus();
  });

  const move = (to: number): void => {
    const row = rows[Math.max(0, Math.min(rows.length - 1, to))];
    if (row === undefined) return;
    wantsFocus.current = true;
    setActive(row.branch.node.id);
  };
  const sideways = ({ branch, level, expanded }: TreeRow, open: boolean): void => {
    if (expanded === !open) onFold(branch.node.id, !open);
    else if (open && expanded) move(at + 1);
    else if (!open) move(rows.findLastIndex((each, place) => place < at && each.level < level));
  };
  const onKey = (event: KeyboardEvent): void => {
    const row = rows[at];
    if (row === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    const actions: Record<string, () => void> = {
      ArrowDown: () => move(at + 1),
      ArrowUp: () => move(at - 1),
      ArrowRight: () => sideways(row, true),
      ArrowLeft: () => sideways(row, false),
      Home: () => move(0),
      End: () => move(rows.length - 1),
      Enter: () => onOpen(row.branch.node.id),
      " ": () => onOpen(row.branch.node.id),
    };
    const action = actions[event.key];
    if (action === undefined) return;
    event.preventDefault();
    action();
  };
  return (
    <div ref={tree} role="tree" aria-label="Delegations" className={css.tree} onKeyDown={onKey}>
      {rows.map((row, place) => {
        const { node } = row.branch;
        return (
          <Row
            key={node.id}
            {...row}
            node={node}
            active={place === at}
            state={delegationState({ ...node, lifeAt: node.lifeAt ?? node.createdAt }, targets.get(node.targetId ?? ""), now, stuckSeconds)}
            elapsed={stopwatch(node.createdAt, node.settledAt === null ? now : Date.parse(node.settledAt))}
            elapsedLabel={elapsedText(row, now)}
            onPress={(onTwist) => {
              setActive(node.id);
              if (onTwist && row.expanded !== null) onFold(node.id, row.expanded);
              else onOpen(node.id);
            }}
          />
        );
      })}
    </div>
  );
}

/** Its own time, and the sum with its sub-tasks. */
function elapsedText({ branch, expanded }: TreeRow, now: number): string {
  const own = ownSeconds(branch.node, now);
  const words = `waited ${seconds(own.waiting)}, worked ${seconds(own.working)}`;
  if (expanded === null) return words;
  const all = sums(branch, now);
  const failed = all.failed > 0 ? `, ${all.failed} failed` : "";
  return `${words}; including sub-tasks: ${plural(all.nodes, "delegation")}, ${all.open} open${failed}, worked ${seconds(all.working)}`;
}

interface RowProps extends Omit<TreeRow, "branch"> {
  branch: TreeRow["branch"];
  node: DelegationNode;
  active: boolean;
  state: DelegationState;
  elapsed: string;
  elapsedLabel: string;
  onPress: (onTwist: boolean) => void;
}

const MARKS = { circle: "Data error: this task is its own sub-task.", missing: "The parent task is no longer stored." };

const Row = memo(
  function Row({ branch, node, level, position, siblings, expanded, active, state, elapsed, elapsedLabel, onPress }: RowProps) {
    const name = useNameOf(node.targetId, node.targetName);
    const place: React.CSSProperties & Record<"--level", number> = { "--level": level };
    return (
      <div
        role="treeitem"
        aria-level={level}
        aria-posinset={position}
        aria-setsize={siblings}
        aria-expanded={expanded ?? undefined}
        aria-selected={false}
        data-node={node.id}
        tabIndex={active ? 0 : -1}
        className={css.row}
        style={place}
        onClick={(event) => onPress(event.target instanceof Element && event.target.closest("[data-twist]") !== null)}
      >
        <span className={expanded === null ? css.leaf : css.twist} data-twist={expanded === null ? undefined : ""} aria-hidden="true">
          {expanded !== null && <Icon name={expanded ? "below" : "right"} size={12} />}
        </span>
        <div className={css.cell}>
          <p className={css.line}>
            <bdi className={css.name}>{name}</bdi>
            <DelegationMark state={state} />
            <span className={css.quiet}>{elapsed}</span>
          </p>
          {node.task !== "" && (
            <p className={css.words} dir="auto">
              {shownTask(node.task)}
            </p>
          )}
          {branch.mark !== null && <p className={css.bad}>{MARKS[branch.mark]}</p>}
          {node.status === "failed" && (
            <p className={css.bad} dir="auto">
              {failedText(node)}
            </p>
          )}
          {node.status === "failed" && node.advice && (
            <p className={css.advice} dir="auto">
              {node.advice}
            </p>
          )}
          {node.reply && (
            <p className={css.words} dir="auto">
              {plainLine(node.reply)}
            </p>
          )}
          <p className={css.quiet}>{elapsedLabel}</p>
        </div>
      </div>
    );
  },
  (one, other) =>
    one.node === other.node &&
    one.active === other.active &&
    one.state === other.state &&
    one.elapsed === other.elapsed &&
    one.elapsedLabel === other.elapsedLabel &&
    one.expanded === other.expanded &&
    one.position === other.position &&
    one.siblings === other.siblings &&
    one.level === other.level,
);
