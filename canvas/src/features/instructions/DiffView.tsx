/** Differences between two templates, text by text. */

import type { DiffLine } from "./diff";
import css from "./Instructions.module.css";
import { partLabel, type TextDiff } from "./model";

const SIGNS: Readonly<Record<DiffLine["kind"], { sign: string; word: string }>> = {
  same: { sign: " ", word: "" },
  added: { sign: "+", word: "added: " },
  removed: { sign: "−", word: "removed: " },
};

export function DiffView({ diffs, none }: { diffs: readonly TextDiff[]; none: string }) {
  if (diffs.length === 0) return <p className={css.hint}>{none}</p>;
  return (
    <>
      {diffs.map(({ where, lines }) => (
        <section key={where} className={css.diff} aria-label={`Changes of ${partLabel(where)}`}>
          <p className={css.diffName}>{partLabel(where)}</p>
          <div className={css.diffLines} tabIndex={0} role="region" aria-label={`Lines of ${partLabel(where)}`}>
            {lines.map(({ kind, text }, at) => (
              <div key={at} className={css[kind]}>
                <span aria-hidden="true" className={css.sign}>
                  {SIGNS[kind].sign}
                </span>
                <span className="visually-hidden">{SIGNS[kind].word}</span>
                <code>{text}</code>
              </div>
            ))}
          </div>
        </section>
      ))}
    </>
  );
}
