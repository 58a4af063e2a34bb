/** Suggestions above the message input. The focus stays in the input. */

import { useEffect, useRef } from "react";
import { Avatar } from "../../ui/Avatar";
import css from "./CompletionList.module.css";
import type { Completions } from "./useCompletions";

export function CompletionList({ completions, name }: { completions: Completions; name: string }) {
  const { kind, shown, active, listId, optionId, choose } = completions;
  const list = useRef<HTMLUListElement>(null);
  useEffect(() => {
    list.current?.children[active]?.scrollIntoView({ block: "nearest" }); // its result is no clean-up function
  }, [active]);
  return (
    <div className={css.popup}>
      <ul ref={list} id={listId} role="listbox" aria-label={kind === "agent" ? "Agents" : "Commands"} className={css.list}>
        {shown.map((each, at) => (
          <li
            key={each.id}
            id={optionId(at)}
            role="option"
            aria-selected={at === active}
            className={css.option}
            onPointerDown={(event) => event.preventDefault()} // the input keeps the focus
            onClick={() => choose(at)}
          >
            {kind === "agent" && <Avatar id={each.id} name={each.name} />}
            <bdi className={css.name}>{kind === "agent" ? each.name : `/${each.name}`}</bdi>
            <span className={css.hint}>{each.hint}</span>
          </li>
        ))}
      </ul>
      {kind === "agent" && (
        <p className={css.note}>
          Inserts the name as text. Only <bdi>{name}</bdi> gets this message.
        </p>
      )}
    </div>
  );
}
