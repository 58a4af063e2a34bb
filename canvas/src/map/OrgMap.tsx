/** The organisation as a map: teams as nested frames, agents as cards. A small organisation is rendered as DOM; of a large
 * one only the cards near the view are, and from afar everything is painted on a canvas. The outline has the same as
 * text. */

import { useCallback, useEffect, useId, useLayoutEffect, useMemo, useReducer, useRef, useState } from "react";
import { useSession } from "../core/app";
import { Button, IconButton } from "../ui/Button";
import { childrenOf } from "../core/state/tree";
import { fit, pan, show, isSameCamera, zoomAt, type Camera, type Size } from "./camera";
import { Card } from "./Card";
import { BUNDLE_ZOOM, type Edges } from "./edges";
import { KEY_STEP, listen, ZOOM_STEP } from "./gestures";
import { layOut, type Layout } from "./layout";
import type { Move } from "../core/session/undo";
import { mapMemory, type MapMemory } from "./memory";
import { EdgeLegend, MessageEdges } from "./MessageEdges";
import type { MapOrg } from "./org";
import { markFirstDrawn } from "./performanceMark";
import css from "./OrgMap.module.css";
import { TeamFrame } from "./TeamFrame";
import { useDragging } from "./useDragging";
import { useEdges } from "./useEdges";
import { usePainting } from "./usePainting";
import { cardAt, isNear, MAX_CARDS, textScale, visibleIn, type Visible } from "./visibility";

/** The same as dragging, for people who cannot drag. */
const MOVES = [
  { icon: "back", label: "Pan left", dx: 2 * KEY_STEP, dy: 0 },
  { icon: "up", label: "Pan up", dx: 0, dy: 2 * KEY_STEP },
  { icon: "below", label: "Pan down", dx: 0, dy: -2 * KEY_STEP },
  { icon: "right", label: "Pan right", dx: -2 * KEY_STEP, dy: 0 },
] as const;

const SMALLEST = 2;

interface Props {
  org: MapOrg;
  selected: string | null;
  onSelect: (id: string | null) => void;
  onOpen: (id: string) => void;
  /** An agent was dragged onto another one. */
  onDrop: (id: string, target: string) => void;
}

export function OrgMap({ org, selected, onSelect, onOpen, onDrop }: Props) {
  const session = useSession();
  const memory = mapMemory(session.identity.org.id);
  const stage = useRef<HTMLDivElement>(null);
  const layer = useRef<HTMLDivElement>(null);
  const zoomText = useRef<HTMLSpanElement>(null);
  const size = useRef<Size>({ w: 0, h: 0 });
  const [packed, packAnew] = useReducer((turn: number) => turn + 1, 0);
  const [editing, setEditing] = useState(false);
  const hint = useId();

  const layout = useLayoutOf(org, memory, packed);
  const [visible, setVisible] = useState<Visible>(() => ({ near: layout.cards.size <= MAX_CARDS, cards: null }));
  const [bundled, setBundled] = useState(false);
  const edges = useEdges({ layout, tree: org.tree, selected, bundled });
  const painting = usePainting({ org, layout, selected, edges, hidden: visible.near });

  const draw = useCallback((): void => {
    const camera = memory.camera;
    if (camera === null || layer.current === null) return;
    layer.current.style.transform = `translate(${camera.x}px, ${camera.y}px) scale(${camera.zoom})`;
    if (zoomText.current) zoomText.current.textContent = `${Math.round(camera.zoom * 100)} %`;
    const next = visibleIn(layout, camera, size.current);
    setVisible((before) => (isSame(before, next) ? before : next));
    setBundled(camera.zoom < BUNDLE_ZOOM);
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
    memory.camera = fit(layout, size.current, textScale());
    memory.fittedTo = Math.min(memory.fittedTo ?? layout.cards.size, layout.cards.size);
    latestDraw.current();
  }, [layout, memory]);
  // A panel that opens beside the map must not shrink its text.
  const refit = (camera: Camera): Camera => fit(layout, size.current, textScale(), Math.min(camera.zoom, textScale()));
  const latestRefit = useRef(refit);
  latestRefit.current = refit;
  const latestFit = useRef(fitAll);
  latestFit.current = fitAll;
  const middle = useCallback(() => ({ x: size.current.w / 2, y: size.current.h / 2 }), []);

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
    if (box) change((camera) => show(camera, box, size.current));
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
      else if (memory.fittedTo !== null) memory.camera = latestRefit.current(memory.camera); // not moved by the person since
      latestDraw.current();
      if (!first || selected !== null) latestReveal.current();
    });
    sizes.observe(element);
    return () => sizes.disconnect();
  }, [memory, selected]);

  useEffect(() => {
    const element = stage.current;
    return element === null ? undefined : listen({ element, change, fit: fitAll, middle });
  }, [change, fitAll, middle]);

  const carried = useDragging({ stage, layout, memory, enabled: editing, onDrop });

  const click = (event: React.MouseEvent): void => {
    const target = event.target instanceof Element ? event.target : null;
    const fold = target?.closest<HTMLElement>("[data-fold]")?.dataset["fold"];
    if (fold !== undefined) return org.fold(fold, true);
    const unfold = target?.closest<HTMLElement>("[data-unfold]")?.dataset["unfold"];
    if (unfold !== undefined) return org.fold(unfold, false);
    const box = stage.current?.getBoundingClientRect();
    const point = { x: event.clientX - (box?.left ?? 0), y: event.clientY - (box?.top ?? 0) };
    const card = target?.closest<HTMLElement>("[data-id]")?.dataset["id"];
    const painted = visible.near || memory.camera === null ? null : cardAt(layout, memory.camera, point);
    const id = card ?? painted;
    if (id === null) onSelect(null);
    else onOpen(id);
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
      >
        <canvas ref={painting.canvas} className={css.canvas} aria-hidden="true" hidden={visible.near} />
        <div ref={layer} className={css.layer}>
          {visible.near && <MapCards org={org} layout={layout} visible={visible} selected={selected} edges={edges} />}
        </div>
      </div>
      {carried}
      <EdgeLegend edges={edges} />
      <p id={hint} className="visually-hidden">
        Arrow keys pan the map, plus and minus zoom, and 0 fits everything. The agent list has the same content as text.
      </p>
      {session.canSend && (
        <div className={css.editing}>
          <p role="status">{editing && "Drag an agent onto its new parent."}</p>
          <Button aria-pressed={editing} onClick={() => setEditing(!editing)}>
            Edit org
          </Button>
        </div>
      )}
      <div className={css.controls} role="group" aria-label="Map controls">
        <IconButton icon="minus" label="Zoom out" onClick={() => change((camera) => zoomAt(camera, middle(), 1 / ZOOM_STEP))} />
        <span ref={zoomText} className={css.zoom} aria-live="off" />
        <IconButton icon="plus" label="Zoom in" onClick={() => change((camera) => zoomAt(camera, middle(), ZOOM_STEP))} />
        <IconButton icon="fit" label="Fit to screen" onClick={fitAll} />
        {MOVES.map(({ icon, label, dx, dy }) => (
          <IconButton key={label} icon={icon} label={label} onClick={() => change((camera) => pan(camera, dx, dy))} />
        ))}
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

interface NearProps {
  org: MapOrg;
  layout: Layout;
  visible: Visible;
  selected: string | null;
  edges: Edges;
}

function MapCards({ org, layout, visible, selected, edges }: NearProps) {
  const { tree, teams, folded, matches } = org;
  const shown = (id: string): boolean => visible.cards === null || visible.cards.has(id);
  return (
    <>
      {[...layout.frames].map(([id, frame]) => {
        const team = teams.get(id);
        return team && shown(`frame:${id}`) ? <TeamFrame key={id} id={id} {...frame} size={team.size} counts={team.counts} /> : null;
      })}
      <MessageEdges edges={edges} />
      {[...layout.cards].map(([id, box]) =>
        shown(id) ? (
          <Card
            key={id}
            id={id}
            x={box.x}
            y={box.y}
            selected={id === selected}
            dimmed={matches !== null && !matches.has(id)}
            below={folded.has(id) && childrenOf(tree, id).length > 0 ? (teams.get(id)?.size ?? 1) - 1 : 0}
          />
        ) : null,
      )}
    </>
  );
}
