/** The field of a dialog that has the focus when it opens: by itself, the button that closes it would. */

import { useEffect, useRef, type RefObject } from "react";

export function useFirstField<E extends HTMLElement>(): RefObject<E | null> {
  const field = useRef<E>(null);
  useEffect(() => field.current?.focus(), []); // after the dialog, which is below, has opened
  return field;
}
