/** The browser's file dialog; the button that opens it is elsewhere. */

import { memo, type RefObject } from "react";

interface Props {
  field: RefObject<HTMLInputElement | null>;
  onPick: (files: readonly File[]) => void;
}

/** Memoized: on each render React sets the attributes of a file input again. */
export const FilePicker = memo(function FilePicker({ field, onPick }: Props) {
  return (
    <input
      ref={field}
      type="file"
      multiple
      hidden
      onChange={(event) => {
        onPick([...(event.target.files ?? [])]);
        event.target.value = ""; // otherwise the same file could not be chosen again
      }}
    />
  );
});
