/** Move agents by dragging cards: shows the target while dragging, and reports the drop. */

import { useEffect, useRef, type ReactNode, type RefObject } from "react";
import { useData } from "../core/app";
import type { Camera } from "./camera";
import { dragCards, dropTarget } from "./dragging";
import type { Layout } from "./layout";
import css from "./OrgMap.module.css";

interface DragInput {
  stage: RefObject<HTMLDivElement | null>;
  layout: Layout;
  memory: { camera: Camera | null };
  enabled: boolean;
  onDrop: (id: string, target: string) => void;
}

/** Returns the overlay of the dragged card. */
export function useDragging({ stage, layout, memory, enabled, onDrop }: DragInput): ReactNode {
  const ghost = useRef<HTMLDivElement>(null);
  const latest = useRef(layout);
  latest.current = layout;
  const latestDrop = useRef(onDrop);
  latestDrop.current = onDrop;
  const names = useData((state) => state.orgNodes);
  const latestNames = useRef(names);
  latestNames.current = names;
  useEffect(() => {
    const element = stage.current;
    if (element === null || !enabled) return undefined;
    return dragCards({
      element,
      targetAt: (point, carried) => {
        const parentId = latestNames.current.get(carried)?.parentId ?? null;
        return memory.camera === null ? null : dropTarget(latest.current, memory.camera, point, { id: carried, parentId });
      },
      show: (carry) => {
        if (ghost.current === null) return;
        ghost.current.hidden = carry === null;
        if (carry === null) return;
        const name = (id: string): string => latestNames.current.get(id)?.name ?? "";
        ghost.current.style.transform = `translate(${carry.at.x + 12}px, ${carry.at.y + 12}px)`;
        ghost.current.textContent = carry.target === null ? name(carry.id) : `${name(carry.id)} → ${name(carry.target)}`;
      },
      drop: (id, target) => latestDrop.current(id, target),
    });
  }, [stage, memory, enabled]);
  return <div ref={ghost} className={css.ghost} aria-hidden="true" hidden />;
}
