/** The texts of a template: its own, and those inherited from its base. */

import { useId, useState } from "react";
import { Button } from "../../ui/Button";
import { CodeField, Findings } from "./CodeField";
import css from "./Instructions.module.css";
import { BLOCKS, blockNames, type Finding, type Parts } from "./model";

interface Props {
  parts: Parts;
  base: { name: string; parts: Parts } | null;
  /** Whether the template extends another one; otherwise all texts are its own. */
  extending: boolean;
  marks: readonly Finding[];
  disabled: boolean;
  onChange: (parts: Parts) => void;
}

export function Editor({ parts, base, extending, marks, disabled, onChange }: Props) {
  const at = (where: string): readonly Finding[] => marks.filter((mark) => mark.where === where);
  const below = extending ? base : null;
  const set = (change: Partial<Parts>): void => onChange({ ...parts, ...change });
  const setBlock = (name: string, words: string | undefined): void => {
    const { [name]: _before, ...others } = parts.blocks;
    set({ blocks: words === undefined ? others : { ...others, [name]: words } });
  };
  const setLine = (place: number, words: string): void => set({ lines: parts.lines.with(place, words) });
  return (
    <div className={css.editor}>
      <p className={css.hint}>
        Type <code>{"{{"}</code> for a variable or <code>{"{%"}</code> for a condition. <kbd>Ctrl</kbd> <kbd>Space</kbd> shows what fits, <kbd>Enter</kbd> takes it,{" "}
        <kbd>Tab</kbd> leaves the field.
      </p>
      {blockNames(parts, below?.parts ?? null).map((name) => (
        <Block
          key={name}
          name={name}
          own={parts.blocks[name]}
          inherited={below?.parts.blocks[name]}
          baseName={below?.name ?? null}
          marks={at(`blocks.${name}`)}
          disabled={disabled}
          onChange={(words) => setBlock(name, words)}
        />
      ))}
      <section className={css.block} aria-label="Added lines">
        <h3>Added lines</h3>
        <p className={css.hint}>In the full form, these lines precede the part about the single message. Lines of the base template come first.</p>
        {below?.parts.lines.map((words, place) => (
          <pre key={place} className={css.inherited}>
            {words}
          </pre>
        ))}
        {parts.lines.map((words, place) => (
          <div key={place} className={css.line}>
            <CodeField template label={`Added line ${place + 1}`} words={words} marks={at(`lines.${place}`)} disabled={disabled} onChange={(next) => setLine(place, next)} />
            <Button disabled={disabled} onClick={() => set({ lines: parts.lines.filter((_, other) => other !== place) })}>
              Remove line {place + 1}
            </Button>
          </div>
        ))}
        <div>
          <Button icon="plus" disabled={disabled} onClick={() => set({ lines: [...parts.lines, ""] })}>
            Add line
          </Button>
        </div>
      </section>
      <section className={css.block} aria-label="Variables">
        <h3>Variables</h3>
        <Fact label="Reply tool" hint="The plain tool name. Agents see it in the spelling of their runtime." value={parts.reply_tool} inherited={below?.parts.reply_tool ?? null} marks={at("reply_tool")} disabled={disabled} onChange={(words) => set({ reply_tool: words })} />
        <Fact label="Docs URL" hint="A path refers to this server." value={parts.docs_url} inherited={below?.parts.docs_url ?? null} marks={at("docs_url")} disabled={disabled} onChange={(words) => set({ docs_url: words })} />
        <Fact label="Warning" hint="Sent beside the text, to hosts that read JSON members." value={parts.stdout_warning} inherited={below?.parts.stdout_warning ?? null} marks={at("stdout_warning")} disabled={disabled} onChange={(words) => set({ stdout_warning: words })} />
        <Fact
          label="More tools"
          hint="Tool names separated by commas. The text can mention them if an agent’s card lists them."
          value={parts.tools.length === 0 ? null : parts.tools.join(", ")}
          inherited={below === null || below.parts.tools.length === 0 ? null : below.parts.tools.join(", ")}
          marks={at("tools")}
          disabled={disabled}
          onChange={(words) => set({ tools: namesIn(words ?? "") })}
        />
      </section>
    </div>
  );
}

interface BlockProps {
  name: string;
  own: string | undefined;
  inherited: string | undefined;
  baseName: string | null;
  marks: readonly Finding[];
  disabled: boolean;
  onChange: (words: string | undefined) => void;
}

function Block({ name, own, inherited, baseName, marks, disabled, onChange }: BlockProps) {
  const hint = BLOCKS.find((each) => each.name === name)?.hint;
  return (
    <section className={css.block} aria-label={`Text ${name}`}>
      <div className={css.blockHead}>
        <h3>{name}</h3>
        {baseName !== null && <span className={own === undefined ? css.origin : css.own}>{own === undefined ? `from ${baseName}` : "overridden"}</span>}
        {own === undefined ? (
          <Button disabled={disabled} onClick={() => onChange(inherited ?? "")} aria-label={`${inherited === undefined ? "Write" : "Change"} ${name}`}>
            {inherited === undefined ? "Write" : "Change"}
          </Button>
        ) : (
          baseName !== null && (
            <Button disabled={disabled} onClick={() => onChange(undefined)} aria-label={`Reset to base: ${name}`}>
              Reset to base
            </Button>
          )
        )}
      </div>
      {hint !== undefined && <p className={css.hint}>{hint}</p>}
      {own !== undefined ? (
        <CodeField template label={`Text ${name}`} words={own} marks={marks} disabled={disabled} onChange={onChange} />
      ) : (
        inherited !== undefined && (
          <>
            <pre className={css.inherited} tabIndex={0} role="region" aria-label={`Text ${name} from ${baseName ?? "the base template"}`}>
              {inherited}
            </pre>
            <Findings marks={marks} />
          </>
        )
      )}
    </section>
  );
}

interface FactProps {
  label: string;
  hint: string;
  value: string | null;
  inherited: string | null;
  marks: readonly Finding[];
  disabled: boolean;
  onChange: (words: string | null) => void;
}

function Fact({ label, hint, value, inherited, marks, disabled, onChange }: FactProps) {
  const id = useId();
  const given = value ?? "";
  // The input keeps what was typed, also where the stored value is normalised.
  const [typed, setTyped] = useState(given);
  const [known, setKnown] = useState(given);
  if (known !== given) {
    setKnown(given);
    if (tidy(typed) !== tidy(given)) setTyped(given);
  }
  return (
    <div className={css.fact}>
      <label htmlFor={id}>{label}</label>
      <input
        id={id}
        value={typed}
        placeholder={inherited ?? ""}
        spellCheck={false}
        autoComplete="off"
        disabled={disabled}
        aria-invalid={marks.some((mark) => !mark.warning) || undefined}
        aria-describedby={`${id}hint`}
        onChange={(event) => {
          setTyped(event.target.value);
          onChange(event.target.value === "" ? null : event.target.value);
        }}
      />
      <p id={`${id}hint`} className={css.hint}>
        {hint}
      </p>
      <Findings marks={marks} />
    </div>
  );
}

function namesIn(words: string): string[] {
  return words.split(",").map((each) => each.trim()).filter(Boolean);
}

function tidy(words: string): string {
  return namesIn(words).join(", ");
}
