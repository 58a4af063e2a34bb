/** The organisation as a tree of text: everything that the map shows, for keyboards, screen readers and small screens. */

import { useCallback, useId, useMemo, type KeyboardEvent } from "react";
import { Button } from "../../ui/Button";
import { Icon } from "../../ui/Icon";
import { isComposing } from "../../ui/keyboard";
import { Notice } from "../../ui/Notice";
import { outlineRows } from "./outlineRows";
import css from "./Outline.module.css";
import { OutlineTree } from "./OutlineTree";
import type { Org } from "./useOrg";

interface Props {
  org: Org;
  selected: string | null;
  filter: string;
  onFilter: (filter: string) => void;
  onSelect: (id: string) => void;
  onOpen: (id: string) => void;
}

export function Outline({ org, selected, filter, onFilter, onSelect, onOpen }: Props) {
  const { tree, folded, matches, orgNodes, fold } = org;
  const heading = useId();
  const rows = useMemo(() => outlineRows(tree, (id) => folded.has(id), matches), [tree, folded, matches]);
  // Enter goes through the matches, in the order of the tree.
  const selectNext = (event: KeyboardEvent): void => {
    if (event.key !== "Enter" || isComposing(event.nativeEvent)) return;
    const found = rows.filter(({ id }) => matches?.has(id));
    const next = found[(found.findIndex(({ id }) => id === selected) + 1) % found.length];
    if (next !== undefined) onSelect(next.id);
  };
  const expand = useCallback((id: string, expanded: boolean) => fold(id, !expanded), [fold]);
  return (
    <section className={css.outline} aria-labelledby={heading}>
      <h2 className="visually-hidden" id={heading}>
        Agents
      </h2>
      <div className={css.find}>
        <Icon name="search" />
        <input
          type="search"
          className={css.input}
          placeholder="Filter agents"
          aria-label="Filter agents"
          value={filter}
          onChange={(event) => onFilter(event.target.value)}
          onKeyDown={selectNext}
        />
      </div>
      {rows.length === 0 ? (
        <Notice icon="search" title={`No agent matches “${filter.trim()}”`} actions={<Button onClick={() => onFilter("")}>Show all agents</Button>}>
          The filter searches names and roles.
        </Notice>
      ) : (
        <OutlineTree rows={rows} orgNodes={orgNodes} labelledBy={heading} selected={selected} onSelect={onSelect} onOpen={onOpen} onExpand={expand} />
      )}
    </section>
  );
}
