/** Files dragged over a part of the page and dropped there. A drop beside it is ignored: the browser would navigate to the
 * file. */

import { useEffect, useRef, useState, type DragEvent } from "react";

interface Drop {
  /** Files are being dragged over it. */
  over: boolean;
  handlers: Record<"onDragEnter" | "onDragOver" | "onDragLeave" | "onDrop", (event: DragEvent) => void>;
}

export function useFileDrop(onFiles: ((files: readonly File[]) => void) | null): Drop {
  const [over, setOver] = useState(false);
  // Entering a child is reported before leaving its parent; only the count shows that everything was left.
  const depth = useRef(0);
  useEffect(stayOnPage, []);
  const move = (by: number): void => {
    depth.current = Math.max(0, depth.current + by);
    setOver(depth.current > 0);
  };
  const taking = (act: (event: DragEvent) => void) => (event: DragEvent) => {
    if (onFiles === null || !event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    act(event);
  };
  return {
    over,
    handlers: {
      onDragEnter: taking(() => move(1)),
      onDragOver: taking((event) => (event.dataTransfer.dropEffect = "copy")),
      onDragLeave: taking(() => move(-1)),
      onDrop: taking((event) => {
        move(-depth.current);
        onFiles?.(filesOf(event.dataTransfer));
      }),
    },
  };
}

/** The files without folders, whose contents the browser does not provide. */
export function filesOf(transfer: DataTransfer): File[] {
  const items = [...transfer.items].filter((item) => item.kind === "file" && item.webkitGetAsEntry()?.isDirectory !== true);
  return items.map((item) => item.getAsFile()).filter((file) => file !== null);
}

function stayOnPage(): () => void {
  const stay = (event: globalThis.DragEvent): void => {
    if (event.dataTransfer?.types.includes("Files")) event.preventDefault();
  };
  window.addEventListener("dragover", stay);
  window.addEventListener("drop", stay);
  return () => {
    window.removeEventListener("dragover", stay);
    window.removeEventListener("drop", stay);
  };
}
