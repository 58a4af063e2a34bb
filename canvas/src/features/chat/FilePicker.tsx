/** The browser's own dialog for choosing files; the button that opens it stands elsewhere. */

import { memo, type RefObject } from "react";

interface Props {
  field: RefObject<HTMLInputElement | null>;
  onPick: (files: readonly File[]) => void;
}

/** Remembered: each time it is rendered, React writes the attributes of an input of type file anew. */
export const FilePicker = memo(function FilePicker({ field, onPick }: Props) {
  return (
    <input
      ref={field}
      type="file"
      multiple
      hidden
      onChange={(event) => {
        onPick([...(event.target.files ?? [])]);
        event.target.value = ""; // so that the same file can be chosen again
      }}
    />
  );
});
