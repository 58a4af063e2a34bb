/** The initials of a name on a tint; decorative, the name is beside it. */

import { initials, tintOf } from "../core/text/strings";
import css from "./Avatar.module.css";

const TINTS = [css.t0, css.t1, css.t2, css.t3, css.t4, css.t5];

export function Avatar({ name, size = "normal" }: { name: string; size?: "small" | "normal" | "large" }) {
  return (
    <span className={`${css.avatar} ${css[size]} ${TINTS[tintOf(name, TINTS.length)]}`} aria-hidden="true">
      {initials(name)}
    </span>
  );
}
