/** The organisation as a map: teams as nested frames, agents as cards. A small organisation is rendered as DOM; of a large
 * one only the cards near the view are, and from afar everything is painted on a canvas. The outline has the same as
 * text. */

import { useCallback, useEffect, useId, useLayoutEffect, useMemo, useReducer, useRef, useState } from "react";
import { useApp, useSession, useSettings } from "../core/app";
import { Button, IconButton } from "../ui/Button";
import { plural } from "../core/text/strings";
import { childrenOf } from "../core/state/tree";
import { fit, pan, show, isSameCamera, zoomAt, type Camera, type Size } from "./camera";
import { Card } from "./Card";
import { cardDetail, isTitled, steppedZoom, TEXT_PIXELS } from "./detail";
import { bundleLevel, titleOf, type Edge, type Edges, type Link } from "./edges";
import { KEY_STEP, listen, ZOOM_STEP } from "./gestures";
import { hitAt, type Hit } from "./hits";
import { layOut, type Layout } from "./layout";
import type { Move } from "../core/session/undo";
import { mapMemory, type MapMemory } from "./memory";
import { EdgeLabels, EdgeLegend, MessageEdges } from "./MessageEdges";
import { MiniMap, type MiniMapHandle } from "./MiniMap";
import type { MapOrg } from "./org";
import { overlap } from "./pack";
import { markFirstDrawn } from "./performanceMark";
import css from "./OrgMap.module.css";
import { TeamFrame } from "./TeamFrame";
import { useDragging } from "./useDragging";
import { useEdges } from "./useEdges";
import { usePainting } from "./usePainting";
import { cardsIn, framesIn, isNear, MAX_CARDS, textScale, visibleIn, type Visible } from "./visibility";

/** The same as dragging, for people who cannot drag. */
const MOVES = [
  { icon: "back", label: "Pan left", dx: 2 * KEY_STEP, dy: 0 },
  { icon: "up", label: "Pan up", dx: 0, dy: 2 * KEY_STEP },
  { icon: "below", label: "Pan down", dx: 0, dy: -2 * KEY_STEP },
  { icon: "right", label: "Pan right", dx: -2 * KEY_STEP, dy: 0 },
] as const;

const SMALLEST = 2;
/** A small organisation is enlarged to fill the map, up to this zoom. */
const FIT_ZOOM = 1.5;

interface Props {
  org: MapOrg;
  selected: string | null;
  onSelect: (id: string | null) => void;
  onOpen: (id: string) => void;
  /** An agent was dragged onto another one. */
  onDrop: (id: string, target: string) => void;
  /** A line was clicked. */
  onFollow: (link: Link) => void;
}

export function OrgMap({ org, selected, onSelect, onOpen, onDrop, onFollow }: Props) {
  const session = useSession();
  const { settings } = useApp();
  const { miniMap } = useSettings();
  const memory = mapMemory(session.identity.org.id);
  const stage = useRef<HTMLDivElement>(null);
  const layer = useRef<HTMLDivElement>(null);
  const zoomText = useRef<HTMLSpanElement>(null);
  const size = useRef<Size>({ w: 0, h: 0 });
  const [packed, packAnew] = useReducer((turn: number) => turn + 1, 0);
  const [editing, setEditing] = useState(false);
  const hint = useId();
  const picked = useRef<string | null>(null);

  const layout = useLayoutOf(org, memory, packed);
  const [visible, setVisible] = useState<Visible>(() => ({ near: layout.cards.size <= MAX_CARDS, cards: null, lines: null }));
  const [level, setLevel] = useState<number | null>(null);
  const [zoom, setZoom] = useState(1);
  const shownZoom = useRef(0);
  const mini = useRef<MiniMapHandle>(null);
  const edges = useEdges({ layout, tree: org.tree, selected, level });
  const painting = usePainting({ org, layout, selected, edges, hidden: visible.near });

  const draw = useCallback((): void => {
    const camera = memory.camera;
    if (camera === null || layer.current === null) return;
    layer.current.style.transform = `translate(${camera.x}px, ${camera.y}px) scale(${camera.zoom})`;
    if (shownZoom.current !== camera.zoom) {
      shownZoom.current = camera.zoom;
      layer.current.style.setProperty("--least", `${TEXT_PIXELS / camera.zoom}px`);
      layer.current.dataset["detail"] = cardDetail(camera.zoom);
      setZoom(steppedZoom(camera.zoom));
    }
    setLevel(bundleLevel(layout, camera.zoom));
    mini.current?.follow(camera, size.current);
    if (zoomText.current) zoomText.current.textContent = `${Math.round(camera.zoom * 100)} %`;
    const next = visibleIn(layout, camera, size.current);
    setVisible((before) => (isSame(before, next) ? before : next));
    if (isNear(layout, camera, size.current)) markFirstDrawn();
    else painting.draw(camera, size.current);
  }, [layout, memory, painting]);
  const latestDraw = useRef(draw);
  latestDraw.current = draw;

  const change = useCallback(
    (move: (camera: Camera) => Camera): void => {
      if (memory.camera === null) return;
      const moved = move(memory.camera);
      if (isSameCamera(moved, memory.camera)) return;
      memory.camera = moved;
      memory.fittedTo = null;
      latestDraw.current();
    },
    [memory],
  );
  const fitAll = useCallback((): void => {
    if (size.current.w === 0) return;
    memory.camera = fit(layout, size.current, FIT_ZOOM * textScale());
    memory.fittedTo = Math.min(memory.fittedTo ?? layout.cards.size, layout.cards.size);
    latestDraw.current();
  }, [layout, memory]);
  const latestFit = useRef(fitAll);
  latestFit.current = fitAll;
  const middle = useCallback(() => ({ x: size.current.w / 2, y: size.current.h / 2 }), []);

  useEffect(() => latestDraw.current(), [miniMap]);
  useLayoutEffect(() => {
    if (memory.camera === null || isGrowingUp(memory.fittedTo, layout)) latestFit.current();
    draw();
  }, [draw, layout, memory, visible]);

  const layoutNow = useRef(layout);
  layoutNow.current = layout;
  const { tree } = org;
  useEffect(() => {
    let moved = memory.reveal;
    memory.reveal = null;
    while (moved !== null && !layout.cards.has(moved)) moved = tree.parent.get(moved) ?? null; // in a collapsed team
    const box = moved === null ? undefined : layout.cards.get(moved);
    if (box) change((camera) => show(camera, box, size.current));
  }, [layout, tree, memory, change]);

  const onlyMatch = org.matches?.size === 1 ? ([...org.matches][0] ?? null) : null;
  useEffect(() => {
    const box = onlyMatch === null ? undefined : layoutNow.current.cards.get(onlyMatch);
    if (box) change((camera) => show(camera, box, size.current));
  }, [onlyMatch, change]);

  const reveal = useCallback((): void => {
    const box = selected === null ? undefined : (layout.cards.get(selected) ?? layout.frames.get(selected));
    if (!box) return;
    // An agent that was opened on the map was seen: it stays in view, and as large.
    const isPicked = selected === picked.current;
    change((camera) => show(camera, box, size.current, isPicked));
  }, [selected, layout, change]);
  const latestReveal = useRef(reveal);
  latestReveal.current = reveal;
  useEffect(() => latestReveal.current(), [selected]);

  useEffect(() => {
    const element = stage.current;
    if (element === null) return;
    const sizes = new ResizeObserver(() => {
      const first = size.current.w === 0;
      size.current = { w: element.clientWidth, h: element.clientHeight };
      if (size.current.w === 0) return;
      if (memory.camera === null) latestFit.current();
      else if (memory.fittedTo !== null) latestFit.current(); // not moved by the person since
      latestDraw.current();
      if (first && selected === null) return;
      const fittedTo = memory.fittedTo;
      latestReveal.current();
      memory.fittedTo = fittedTo; // the size of the window moved the map, not the person
    });
    sizes.observe(element);
    return () => sizes.disconnect();
  }, [memory, selected]);

  useEffect(() => {
    const element = stage.current;
    return element === null ? undefined : listen({ element, change, fit: fitAll, middle, size: () => size.current });
  }, [change, fitAll, middle]);

  const carried = useDragging({ stage, layout, memory, enabled: editing, onDrop });

  const paintedAt = (event: React.MouseEvent): Hit | null => {
    if (visible.near || memory.camera === null) return null;
    const box = stage.current?.getBoundingClientRect();
    const point = { x: event.clientX - (box?.left ?? 0), y: event.clientY - (box?.top ?? 0) };
    return hitAt({ layout, edges: edges.shown, folded: org.folded }, memory.camera, point);
  };
  const nameOf = useCallback((id: string) => org.workspaces.get(id)?.name ?? "", [org.workspaces]);
  const click = (event: React.MouseEvent): void => {
    const hit = renderedAt(event.target, edges.shown) ?? paintedAt(event);
    if (hit?.kind === "title") return org.fold(hit.id, true);
    if (hit?.kind === "unfold") return org.fold(hit.id, false);
    if (hit?.kind === "edge") return onFollow(hit.edge);
    picked.current = hit?.id ?? null;
    if (hit === null) onSelect(null);
    else onOpen(hit.id);
  };
  const point = (event: React.PointerEvent): void => {
    const canvas = painting.canvas.current;
    if (visible.near || canvas === null || event.buttons !== 0) return;
    const hit = paintedAt(event);
    canvas.style.cursor = hit === null ? "" : "pointer";
    canvas.title = hit === null ? "" : hintOf(hit, nameOf, (id) => org.teams.get(id)?.size ?? 1);
  };

  return (
    <>
      <div
        ref={stage}
        className={css.stage}
        role="group"
        aria-label="Map of the organisation"
        aria-describedby={hint}
        data-editing={editing || undefined}
        tabIndex={0}
        onClick={click}
        onPointerMove={point}
      >
        <canvas ref={painting.canvas} className={css.canvas} aria-hidden="true" hidden={visible.near} />
        <div ref={layer} className={css.layer}>
          {visible.near && <MapCards org={org} layout={layout} visible={visible} selected={selected} edges={edges} zoom={zoom} nameOf={nameOf} />}
        </div>
      </div>
      {carried}
      <EdgeLegend edges={edges} />
      <p id={hint} className="visually-hidden">
        Arrow keys pan the map, plus and minus zoom, and 0 fits everything. A wheel or trackpad scrolls it, sideways with Shift; with
        Ctrl or Cmd, or by a pinch, it zooms. With the space bar held, a drag pans from anywhere. The agent list has the same content
        as text.
      </p>
      {session.canSend && (
        <div className={css.editing}>
          <p role="status">{editing && "Drag an agent onto its new parent."}</p>
          <Button
            aria-pressed={editing}
            onClick={(event) => {
              setEditing(!editing);
              if (event.detail > 0) stage.current?.focus(); // the space bar pans; keys stay on the button
            }}
          >
            Edit org
          </Button>
        </div>
      )}
      {miniMap && (
        <MiniMap
          ref={mini}
          org={org}
          layout={layout}
          onMove={({ x, y }) => change((camera) => ({ ...camera, x: size.current.w / 2 - x * camera.zoom, y: size.current.h / 2 - y * camera.zoom }))}
        />
      )}
      <div className={css.controls} role="group" aria-label="Map controls">
        <IconButton icon="minus" label="Zoom out" onClick={() => change((camera) => zoomAt(camera, middle(), 1 / ZOOM_STEP))} />
        <span ref={zoomText} className={css.zoom} aria-live="off" />
        <IconButton icon="plus" label="Zoom in" onClick={() => change((camera) => zoomAt(camera, middle(), ZOOM_STEP))} />
        <IconButton icon="fit" label="Fit to screen" onClick={fitAll} />
        {MOVES.map(({ icon, label, dx, dy }) => (
          <IconButton key={label} icon={icon} label={label} onClick={() => change((camera) => pan(camera, dx, dy))} />
        ))}
        <IconButton icon="overview" label="Minimap" aria-pressed={miniMap} onClick={() => settings.change({ miniMap: !miniMap })} />
        <IconButton
          icon="tidy"
          label="Tidy up"
          onClick={() => {
            memory.layout = null;
            memory.beforeMove = null;
            memory.camera = null;
            packAnew();
          }}
        />
      </div>
    </>
  );
}

function useLayoutOf(org: MapOrg, memory: MapMemory, packed: number): Layout {
  const { tree, folded } = org;
  const { lastMove } = useSession();
  return useMemo(() => {
    memory.layout = layOut(tree, folded, layoutBefore(memory, lastMove.get()));
    return memory.layout;
    // `packed` requests a new layout; the caller has cleared the previous one.
  }, [tree, folded, memory, packed, lastMove]);
}

/** The layout that is changed: the last one, or after an undone move the one before the move. */
function layoutBefore(memory: MapMemory, move: Move | null): Layout | null {
  if (move === memory.move || move === null) return memory.layout;
  const { layout, beforeMove } = memory;
  memory.move = move;
  memory.reveal = move.id;
  memory.beforeMove = move.isBack ? null : layout;
  return move.isBack ? (beforeMove ?? layout) : layout;
}

/** A new organisation is kept in view while it grows, until the person moves the map. Any other map stays where it is when
 * agents are added. */
function isGrowingUp(fittedTo: number | null, layout: Layout): boolean {
  return fittedTo !== null && fittedTo <= SMALLEST && layout.cards.size > fittedTo;
}

function isSame(one: Visible, other: Visible): boolean {
  if (one.near !== other.near) return false;
  if (one.cards === null || other.cards === null) return one.cards === other.cards;
  if (one.cards.size !== other.cards.size) return false;
  for (const id of one.cards) if (!other.cards.has(id)) return false;
  return true;
}

/** The rendered card, title or line of an event. */
function renderedAt(target: EventTarget, edges: readonly Edge[]): Hit | null {
  const found = (name: string): string | undefined => (target instanceof Element ? target.closest<HTMLElement | SVGElement>(`[data-${name}]`)?.dataset[name] : undefined);
  const [fold, unfold, id, link] = [found("fold"), found("unfold"), found("id"), found("link")];
  if (fold !== undefined) return { kind: "title", id: fold };
  if (unfold !== undefined) return { kind: "unfold", id: unfold };
  if (id !== undefined) return { kind: "card", id };
  const edge = edges.find(({ key }) => key === link);
  return edge ? { kind: "edge", edge } : null;
}

function hintOf(hit: Hit, nameOf: (id: string) => string, size: (id: string) => number): string {
  if (hit.kind === "edge") return titleOf(hit.edge, nameOf);
  if (hit.kind === "title") return `Collapse team: ${nameOf(hit.id)}, ${plural(size(hit.id), "agent")}`;
  return hit.kind === "unfold" ? `Expand team: ${nameOf(hit.id)}` : nameOf(hit.id);
}

interface NearProps {
  org: MapOrg;
  layout: Layout;
  visible: Visible;
  selected: string | null;
  edges: Edges;
  /** In steps. */
  zoom: number;
  nameOf: (id: string) => string;
}

function MapCards({ org, layout, visible, selected, edges, zoom, nameOf }: NearProps) {
  const { tree, teams, folded, matches } = org;
  const { lines } = visible;
  const seen = useMemo(() => (lines === null ? edges : { ...edges, shown: edges.shown.filter(({ extent }) => overlap(extent, lines)) }), [edges, lines]);
  return (
    <>
      {framesIn(layout, visible).map(([id, frame]) => {
        const team = teams.get(id);
        const { x, y, w, h, depth, title } = frame;
        const where = { x, y, w, h, depth, title };
        return team ? <TeamFrame key={id} id={id} {...where} titled={isTitled(frame, zoom)} team={team} /> : null;
      })}
      <MessageEdges edges={seen} nameOf={nameOf} />
      <EdgeLabels edges={seen} nameOf={nameOf} zoom={zoom} />
      {cardsIn(layout, visible).map(([id, box]) => (
        <Card
          key={id}
          id={id}
          x={box.x}
          y={box.y}
          selected={id === selected}
          dimmed={matches !== null && !matches.has(id)}
          worst={teams.get(id)?.worst ?? "offline"}
          below={folded.has(id) && childrenOf(tree, id).length > 0 ? (teams.get(id)?.size ?? 1) - 1 : 0}
        />
      ))}
    </>
  );
}
