/** Input for a template text: line numbers, and findings at their lines. */

import { useId, useRef, type ReactNode, type UIEvent } from "react";
import css from "./Instructions.module.css";
import type { Finding } from "./model";

interface Props {
  label: string;
  words: string;
  marks: readonly Finding[];
  disabled?: boolean;
  onChange: (words: string) => void;
}

export function CodeField({ label, words, marks, disabled = false, onChange }: Props) {
  const id = useId();
  const gutter = useRef<HTMLDivElement>(null);
  const lines = words.split("\n").length;
  const marked = new Map(marks.map((mark) => [mark.line, mark.warning ? css.mild : css.marked]));
  const wrong = marks.some((mark) => !mark.warning);
  const follow = (event: UIEvent<HTMLTextAreaElement>): void => {
    if (gutter.current) gutter.current.scrollTop = event.currentTarget.scrollTop;
  };
  return (
    <>
      <div className={`${css.code} ${wrong ? css.wrong : ""}`}>
        <div className={css.gutter} ref={gutter} aria-hidden="true">
          <div className={css.numbers}>
            {Array.from({ length: lines }, (_, at) => (
              <span key={at} className={marked.get(at + 1)}>
                {at + 1}
              </span>
            ))}
          </div>
        </div>
        <textarea
          aria-label={label}
          aria-invalid={wrong || undefined}
          aria-describedby={marks.length > 0 ? id : undefined}
          value={words}
          wrap="off"
          rows={Math.min(16, Math.max(2, lines))}
          spellCheck={false}
          autoComplete="off"
          autoCapitalize="off"
          disabled={disabled}
          onScroll={follow}
          onChange={(event) => onChange(event.target.value)}
        />
      </div>
      <Findings id={id} marks={marks} />
    </>
  );
}

/** Findings of the server. */
export function Findings({ id, marks }: { id?: string; marks: readonly Finding[] }): ReactNode {
  if (marks.length === 0) return null;
  return (
    <ul className={css.marks} id={id}>
      {marks.map(({ line, text, warning }, at) => (
        <li key={at} className={warning ? css.warning : undefined}>
          {line !== null && <strong>Line {line}: </strong>}
          <bdi>{text}</bdi>
        </li>
      ))}
    </ul>
  );
}
