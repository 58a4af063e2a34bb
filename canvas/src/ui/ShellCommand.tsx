/** A command to paste into a terminal, with a copy button. */

import { CopyButton } from "./CopyButton";
import css from "./ShellCommand.module.css";

interface Props {
  /** What the command does; names the region and its button. */
  label: string;
  text: string;
  /** Shown instead of the text, once that is hidden. */
  masked?: string;
}

export function ShellCommand({ label, text, masked }: Props) {
  return (
    <div className={css.command}>
      <pre className={css.text} dir="ltr" tabIndex={0} role="region" aria-label={label}>
        <code>{masked ?? text}</code>
      </pre>
      {masked === undefined && <CopyButton text={text} label={`Copy: ${label}`} />}
    </div>
  );
}
