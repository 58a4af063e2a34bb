/** The items of the inbox, oldest first, each with its actions. */

import { useEffect, useRef, useState, type KeyboardEvent, type RefObject } from "react";
import { useSession } from "../../core/app";
import type { InboxPlace } from "../../core/router";
import type { InboxItem } from "../../core/state/inboxItems";
import { useStored } from "../../core/store/store";
import { Button } from "../../ui/Button";
import { Notice } from "../../ui/Notice";
import { useListKeys } from "../../ui/useListKeys";
import { ApprovalCard } from "../approvals/ApprovalCard";
import { ReadProblem as ApprovalsProblem, Unsettled } from "../approvals/ApprovalList";
import { ItemGlyph } from "../attention/ItemGlyph";
import { DelegationRow, RefusedRow } from "../problems/DelegationProblems";
import { ChainRow, DeadLetterRow, ReadProblem, UnansweredRow, UnclaimedRow } from "../problems/ProblemsView";
import { AgentRow } from "./AgentRow";
import css from "./InboxView.module.css";
import { QuestionRow } from "./QuestionRow";
import { KIND_TEXTS } from "./texts";

/** More are shown on request. */
const PAGE_SIZE = 50;

interface Props {
  items: readonly InboxItem[];
  place: InboxPlace;
  heading: RefObject<HTMLHeadingElement | null>;
}

export function ItemList({ items, place, heading }: Props) {
  const { decisions } = useSession();
  const list = useRef<HTMLDivElement>(null);
  const [most, setMost] = useState(PAGE_SIZE);
  useEffect(() => void decisions.readWaiting(Date.now), [decisions]);
  useListKeys(list, "[data-item]");
  const at = items.findIndex(({ key }) => key === place.item);
  const shown = items.slice(0, Math.max(most, at + 1));
  useShownItem(list, place.item, at !== -1);
  useKeptFocus(list, items, heading);
  return (
    <>
      <ApprovalsProblem empty={items.length === 0} />
      <ReadProblem />
      <Unsettled list="waiting" />
      <div className={css.scroller} ref={list}>
        {items.length === 0 ? (
          <Empty place={place} />
        ) : (
          <ul className={css.items} aria-label="Inbox">
            {shown.map((item) => (
              <li
                key={item.key}
                className={css.item}
                data-item={item.key}
                data-approval={item.kind === "approval" ? item.approval.id : undefined}
                aria-current={item.kind === "approval" && item.approval.id === place.open?.id ? "true" : undefined}
                tabIndex={-1}
                onKeyDown={openOnEnter}
              >
                <p className={css.what}>
                  <ItemGlyph item={item} />
                  {item.text}
                </p>
                <ItemRow item={item} decides={place.open === null} />
              </li>
            ))}
          </ul>
        )}
        {items.length > shown.length && (
          <p className={css.more}>
            <Button onClick={() => setMost(shown.length + PAGE_SIZE)}>Show more of {items.length.toLocaleString("en-GB")}</Button>
          </p>
        )}
      </div>
    </>
  );
}

/** `decides`: approvals can be decided in the list. */
function ItemRow({ item, decides }: { item: InboxItem; decides: boolean }) {
  switch (item.kind) {
    case "approval":
      return <ApprovalCard approval={item.approval} since={item.since} decides={decides} />;
    case "question":
      return <QuestionRow question={item.question} />;
    case "draft":
    case "overdue":
      return <UnansweredRow message={item.message} />;
    case "task":
      return item.trouble === "blocked" ? <RefusedRow refused={item.refused} /> : <DelegationRow delegation={item.delegation} seen={item.trouble === "failed"} />;
    case "undelivered":
      return item.trouble === "dead" ? <DeadLetterRow deadLetter={item.deadLetter} /> : <UnclaimedRow unclaimed={item.unclaimed} />;
    case "chain":
      return <ChainRow chain={item.chain} />;
    case "agent":
      return <AgentRow agent={item.agent} since={item.since} />;
  }
}

/** Enter on an item follows its first link. */
function openOnEnter(event: KeyboardEvent<HTMLElement>): void {
  if (event.key !== "Enter" || event.target !== event.currentTarget) return;
  event.currentTarget.querySelector("a")?.click();
}

/** Show the item of the address, and give it the focus. */
function useShownItem(list: RefObject<HTMLElement | null>, key: string | null, isThere: boolean): void {
  useEffect(() => {
    if (key === null || !isThere) return;
    const found = [...(list.current?.querySelectorAll<HTMLElement>("[data-item]") ?? [])].find((each) => each.dataset["item"] === key);
    found?.scrollIntoView({ block: "nearest" });
    found?.focus({ preventScroll: true });
  }, [list, key, isThere]);
}

/** When the item with the focus is done, the next one has it. */
function useKeptFocus(list: RefObject<HTMLElement | null>, items: readonly InboxItem[], heading: RefObject<HTMLElement | null>): void {
  const focused = useRef(-1);
  useEffect(() => {
    const element = list.current;
    if (element === null) return;
    const keep = (event: FocusEvent): void => {
      const stops = [...element.querySelectorAll("[data-item]")];
      focused.current = stops.findIndex((each) => each.contains(event.target as Node));
    };
    const forget = (event: FocusEvent): void => {
      if (event.relatedTarget !== null) focused.current = -1;
    };
    element.addEventListener("focusin", keep);
    element.addEventListener("focusout", forget);
    return () => {
      element.removeEventListener("focusin", keep);
      element.removeEventListener("focusout", forget);
    };
  }, [list]);
  useEffect(() => {
    if (focused.current === -1 || document.activeElement !== document.body) return;
    const stops = list.current?.querySelectorAll<HTMLElement>("[data-item]");
    const next = stops?.[Math.min(focused.current, stops.length - 1)] ?? heading.current;
    next?.focus({ preventScroll: true });
  }, [list, items, heading]);
}

/** Not shown for lists that could not be read. */
function Empty({ place }: { place: InboxPlace }) {
  const { decisions, problemLists } = useSession();
  const approvals = useStored(decisions.status);
  const problems = useStored(problemLists.status);
  if (approvals.problem !== null || problems.problem !== null) return null;
  if (approvals.readAt === null || problems.readAt === null) return <Notice icon="clock" title="Loading inbox…" />;
  return (
    <Notice icon="check" title={place.kind === null ? "You’re all caught up" : KIND_TEXTS[place.kind].none}>
      Approvals, questions of agents, unsent and overdue answers, failed and stuck work appear here.
    </Notice>
  );
}
