/** A view without content: empty, loading, not found, failed. */

import type { ReactNode } from "react";
import { Icon, type IconName } from "./Icon";
import css from "./Notice.module.css";

interface Props {
  icon: IconName;
  title: string;
  children?: ReactNode;
  actions?: ReactNode;
}

export function Notice({ icon, title, children, actions }: Props) {
  return (
    <div className={css.notice}>
      <span className={css.icon}>
        <Icon name={icon} size={22} />
      </span>
      <h2 className={css.title}>{title}</h2>
      {children && <div className={css.words}>{children}</div>}
      {actions && <div className={css.actions}>{actions}</div>}
    </div>
  );
}
