/** A modal dialog. The browser traps the focus, closes it with Escape, and returns the focus to the opener. */

import { useEffect, useRef, type ReactNode } from "react";
import { IconButton } from "./Button";
import css from "./Dialog.module.css";

interface Props {
  label: string;
  /** Without a heading the label is for screen readers only, and the content has no padding. */
  heading?: boolean;
  /** As wide as its content, within the window. */
  wide?: boolean;
  onClose: () => void;
  children: ReactNode;
}

export function Dialog({ label, heading = true, wide = false, onClose, children }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const opener = document.activeElement;
    if (!dialog.current?.open) dialog.current?.showModal();
    return () => {
      if (opener instanceof HTMLElement && opener.isConnected) opener.focus();
    };
  }, []);
  // Where the press began: for a browser, selecting text from inside to outside is a click on the dialog.
  const beganOutside = useRef(false);
  const press = (event: React.PointerEvent): void => {
    beganOutside.current = event.target === dialog.current;
  };
  const closeOutside = (event: React.MouseEvent): void => {
    if (beganOutside.current && event.target === dialog.current) onClose();
  };
  return (
    <dialog ref={dialog} className={wide ? `${css.dialog} ${css.wide}` : css.dialog} aria-label={label} onClose={onClose} onPointerDown={press} onClick={closeOutside}>
      <div className={css.inside}>
        {heading && (
          <header className={css.head}>
            <h2>{label}</h2>
            <IconButton icon="close" label="Close" onClick={onClose} />
          </header>
        )}
        {heading ? <div className={css.body}>{children}</div> : children}
      </div>
    </dialog>
  );
}
