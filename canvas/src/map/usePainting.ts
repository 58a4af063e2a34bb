/** The canvas behind the DOM layer. Painted at most once per frame, and only after a change. */

import { useCallback, useEffect, useMemo, useRef, type RefObject } from "react";
import { useScheme } from "../ui/theme";
import { shownStatus } from "../core/state/agentStatus";
import type { Camera, Size } from "./camera";
import type { Edges } from "./edges";
import type { Layout } from "./layout";
import type { MapOrg } from "./org";
import { paint, readPalette, type Painted, type Palette } from "./paint";
import { markFirstDrawn } from "./performanceMark";

interface Painting {
  canvas: RefObject<HTMLCanvasElement | null>;
  draw: (camera: Camera, window: Size) => void;
}

interface Shown {
  org: MapOrg;
  layout: Layout;
  selected: string | null;
  edges: Edges;
}

export function usePainting({ hidden, ...shown }: Shown & { hidden: boolean }): Painting {
  const canvas = useRef<HTMLCanvasElement>(null);
  const scheme = useScheme();
  const palette = useRef<Palette | null>(null);
  const last = useRef<{ camera: Camera; window: Size } | null>(null);
  const asked = useRef(0);
  const what = usePainted(shown);
  const latest = useRef(what);
  latest.current = what;

  const paintNow = useCallback((): void => {
    asked.current = 0;
    const element = canvas.current;
    const ctx = element?.getContext("2d");
    if (!element || !ctx || last.current === null) return;
    const { camera, window: size } = last.current;
    const scale = window.devicePixelRatio || 1;
    resize(element, size, scale);
    palette.current ??= readPalette(element);
    paint(ctx, latest.current, camera, size, scale, palette.current);
    markFirstDrawn();
  }, []);

  const ask = useCallback((): void => {
    if (asked.current === 0) asked.current = requestAnimationFrame(paintNow);
  }, [paintNow]);

  useEffect(() => () => cancelAnimationFrame(asked.current), []);
  useEffect(() => {
    palette.current = null;
    if (!hidden) ask();
  }, [scheme, hidden, ask]);
  useEffect(() => {
    if (!hidden) ask();
  }, [what, hidden, ask]);

  return useMemo(
    () => ({
      canvas,
      draw: (camera, size) => {
        last.current = { camera, window: size };
        ask();
      },
    }),
    [ask],
  );
}

function usePainted({ org, layout, selected, edges }: Shown): Painted {
  const { workspaces, waits, teams, folded, matches } = org;
  return useMemo(() => {
    const at = (id: string) => workspaces.get(id);
    return {
      layout,
      teams,
      edges: edges.shown,
      folded,
      selected,
      matches,
      name: (id) => at(id)?.name ?? "",
      statusOf: (id) => {
        const workspace = at(id);
        return workspace ? shownStatus(workspace, waits.get(id)) : "offline";
      },
    };
  }, [layout, teams, folded, matches, selected, edges, workspaces, waits]);
}

function resize(element: HTMLCanvasElement, size: Size, scale: number): void {
  const [width, height] = [Math.round(size.w * scale), Math.round(size.h * scale)];
  if (element.width === width && element.height === height) return;
  element.width = width;
  element.height = height;
}
