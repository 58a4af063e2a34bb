/** Files that are dragged over a part of the page, and dropped there. Dropped beside it they do nothing: a browser would
 * leave the page for them. */

import { useEffect, useRef, useState, type DragEvent } from "react";

interface Drop {
  /** Files are being dragged over it. */
  over: boolean;
  handlers: Record<"onDragEnter" | "onDragOver" | "onDragLeave" | "onDrop", (event: DragEvent) => void>;
}

export function useFileDrop(onFiles: ((files: readonly File[]) => void) | null): Drop {
  const [over, setOver] = useState(false);
  // A child that is entered is told before its parent is left: only the count says when all of it was left.
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

/** The files without the folders: what is in those the browser does not hand over. */
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
