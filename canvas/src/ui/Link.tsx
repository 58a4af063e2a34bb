/** A link within this page. */

import type { AnchorHTMLAttributes, MouseEvent } from "react";
import { useApp } from "../core/app";
import { hrefOf, type Place } from "../core/router";

interface Props extends Omit<AnchorHTMLAttributes<HTMLAnchorElement>, "href"> {
  to: Place;
}

export function Link({ to, onClick, ...rest }: Props) {
  const { router } = useApp();
  const follow = (event: MouseEvent<HTMLAnchorElement>): void => {
    onClick?.(event);
    const elsewhere = event.metaKey || event.ctrlKey || event.shiftKey || event.altKey || event.button !== 0;
    if (event.defaultPrevented || elsewhere) return;
    event.preventDefault();
    router.go(to);
  };
  return <a {...rest} href={hrefOf(to)} onClick={follow} />;
}
