/** The name of a file: isolated from the text around it, and shortened in the middle. The full name is shown on hover, and
 * while its container has the focus. */

import { shortFileName, cleanFileName } from "../core/text/files";
import css from "./FileName.module.css";

export function FileName({ name }: { name: string }) {
  const whole = cleanFileName(name);
  const cut = shortFileName(whole);
  return (
    <span className={css.name} title={whole}>
      <bdi>{cut}</bdi>
      {cut !== whole && <bdi className={css.whole}>{whole}</bdi>}
    </span>
  );
}
