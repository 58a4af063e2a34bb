/** Buttons. */

import type { ButtonHTMLAttributes, Ref } from "react";
import { Icon, type IconName } from "./Icon";
import css from "./Button.module.css";

interface Common extends ButtonHTMLAttributes<HTMLButtonElement> {
  ref?: Ref<HTMLButtonElement>;
}

export function Button({ kind = "plain", icon, className = "", children, ...rest }: Common & { kind?: "plain" | "primary" | "danger" | "quiet"; icon?: IconName }) {
  return (
    <button type="button" className={`${css.button} ${css[kind]} ${className}`} {...rest}>
      {icon && <Icon name={icon} />}
      {children}
    </button>
  );
}

/** An icon-only button; its label is read out and shown on hover. */
export function IconButton({ icon, label, className = "", ...rest }: Common & { icon: IconName; label: string }) {
  return (
    <button type="button" className={`${css.icon} ${className}`} aria-label={label} title={label} {...rest}>
      <Icon name={icon} />
    </button>
  );
}
