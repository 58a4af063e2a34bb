/** The name of a file, whoever chose it: kept apart from the text around it, a long one cut in the middle. All of it is
 * shown on hover, and beside it while what holds it has the focus. */

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
