/** All of the map as a small picture, with the part in view. Hidden while everything is in view. A click or drag moves the view.
 * The outline has the content. */

import { useEffect, useImperativeHandle, useRef, type Ref } from "react";
import { useScheme } from "../ui/theme";
import { view, type Camera, type Size } from "./camera";
import type { Layout } from "./layout";
import css from "./OrgMap.module.css";
import { readPalette } from "./paint";
import type { MapOrg } from "./org";
import type { Point } from "./routes";
import { shownStatus } from "../core/state/agentStatus";

const MOST = { w: 150, h: 96 };

export interface MiniMapHandle {
  /** Show what part is in view. */
  follow: (camera: Camera, window: Size) => void;
}

interface Props {
  ref: Ref<MiniMapHandle>;
  org: MapOrg;
  layout: Layout;
  /** Bring a point of the map into the middle. */
  onMove: (middle: Point) => void;
}

export function MiniMap({ ref, org, layout, onMove }: Props) {
  const holder = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const seen = useRef<HTMLDivElement>(null);
  const scheme = useScheme();
  const scale = Math.min(MOST.w / Math.max(1, layout.w), MOST.h / Math.max(1, layout.h));
  const size = { w: Math.ceil(layout.w * scale), h: Math.ceil(layout.h * scale) };

  useImperativeHandle(ref, () => ({
    follow: (camera, window) => {
      if (!holder.current || !seen.current) return;
      const part = view(camera, window, 0);
      holder.current.hidden = part.x <= 0 && part.y <= 0 && part.x + part.w >= layout.w && part.y + part.h >= layout.h;
      const [left, top] = [Math.max(0, part.x), Math.max(0, part.y)];
      const [right, bottom] = [Math.min(layout.w, part.x + part.w), Math.min(layout.h, part.y + part.h)];
      seen.current.style.transform = `translate(${Math.min(size.w - 6, left * scale)}px, ${Math.min(size.h - 6, top * scale)}px)`;
      seen.current.style.width = `${Math.max(0, right - left) * scale}px`;
      seen.current.style.height = `${Math.max(0, bottom - top) * scale}px`;
    },
  }), [layout, scale, size.w, size.h]);

  const { workspaces, waits } = org;
  useEffect(() => {
    const ctx = canvas.current?.getContext("2d");
    if (!canvas.current || !ctx) return;
    const palette = readPalette(canvas.current);
    const ratio = window.devicePixelRatio || 1;
    ctx.setTransform(ratio * scale, 0, 0, ratio * scale, 0, 0);
    ctx.clearRect(0, 0, layout.w, layout.h);
    for (const { x, y, w, h, depth } of layout.frames.values()) {
      ctx.fillStyle = depth % 2 === 0 ? palette.sunk : palette.page;
      ctx.fillRect(x, y, w, h);
    }
    for (const [id, { x, y, w, h }] of layout.cards) {
      const workspace = workspaces.get(id);
      ctx.fillStyle = palette.status[workspace ? shownStatus(workspace, waits.get(id)) : "offline"];
      ctx.fillRect(x, y, Math.max(w, 1 / scale), Math.max(h, 1 / scale));
    }
  }, [layout, workspaces, waits, scheme, scale, size.w, size.h]);

  const move = (event: React.PointerEvent<HTMLDivElement>): void => {
    event.stopPropagation();
    if (event.type === "pointerdown") event.currentTarget.setPointerCapture(event.pointerId);
    else if (!event.currentTarget.hasPointerCapture(event.pointerId)) return;
    const box = event.currentTarget.getBoundingClientRect();
    onMove({ x: (event.clientX - box.left) / scale, y: (event.clientY - box.top) / scale });
  };
  const ratio = window.devicePixelRatio || 1;
  return (
    <div ref={holder} className={css.mini} aria-hidden="true" data-minimap onPointerDown={move} onPointerMove={move} hidden>
      <canvas ref={canvas} width={size.w * ratio} height={size.h * ratio} style={{ width: size.w, height: size.h }} />
      <div ref={seen} className={css.seen} />
    </div>
  );
}
