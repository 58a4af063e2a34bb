/** Paint the map when the DOM would hold too many cards: blocks from afar, small cards from nearer. Same boxes, glyphs and
 * colours as the DOM; no unreadable text. */

import type { AgentStatus } from "../core/state/agentStatus";
import type { Team } from "../core/state/teams";
import { view, type Camera, type Size } from "./camera";
import { isTitled, NAME_ZOOM, TEXT_PIXELS, titlePixels } from "./detail";
import { countOf, DASHES, headOf, type Edge, type EdgeState } from "./edges";
import type { Frame, Layout } from "./layout";
import { overlap, type Box } from "./pack";
import { rounded as roundedLine, type Point } from "./routes";
import { shortened } from "./shortened";

/** Below this zoom teams are single blocks; cards would be dots. */
const FAR_ZOOM = 0.06;

export interface Palette {
  page: string;
  card: string;
  sunk: string;
  text: string;
  muted: string;
  line: string;
  soft: string;
  accent: string;
  font: string;
  status: Readonly<Record<AgentStatus, string>>;
}

export interface Painted {
  layout: Layout;
  teams: ReadonlyMap<string, Team>;
  name: (id: string) => string;
  statusOf: (id: string) => AgentStatus;
  edges: readonly Edge[];
  folded: ReadonlySet<string>;
  selected: string | null;
  matches: ReadonlySet<string> | null;
}

export function readPalette(element: Element): Palette {
  const style = getComputedStyle(element);
  const token = (name: string): string => style.getPropertyValue(`--${name}`).trim();
  const status: Record<AgentStatus, string> = {
    failed: token("bad"),
    waiting: token("waiting"),
    peer: token("waiting"),
    queued: token("muted"),
    degraded: token("waiting"),
    limited: token("paused"),
    working: token("working"),
    online: token("ok"),
    paused: token("paused"),
    hibernated: token("paused"),
    provisioning: token("offline"),
    awaiting: token("offline"),
    offline: token("offline"),
  };
  return {
    page: token("page"),
    card: token("card"),
    sunk: token("sunk"),
    text: token("text"),
    muted: token("muted"),
    line: token("line"),
    soft: token("soft"),
    accent: token("accent"),
    font: style.fontFamily,
    status: status,
  };
}

export function paint(ctx: CanvasRenderingContext2D, what: Painted, camera: Camera, window: Size, scale: number, palette: Palette): void {
  ctx.setTransform(scale, 0, 0, scale, 0, 0);
  ctx.fillStyle = palette.page;
  ctx.fillRect(0, 0, window.w, window.h);
  const seen = view(camera, window, 0);
  const onScreen = (box: Box): Box => ({
    x: box.x * camera.zoom + camera.x,
    y: box.y * camera.zoom + camera.y,
    w: box.w * camera.zoom,
    h: box.h * camera.zoom,
  });
  for (const [id, frame] of what.layout.frames) {
    if (overlap(frame, seen)) paintFrame(ctx, what, id, frame, onScreen(frame), camera.zoom, palette);
  }
  if (camera.zoom < FAR_ZOOM) paintDots(ctx, what, seen, onScreen, palette);
  else {
    for (const [id, box] of what.layout.cards) {
      if (overlap(box, seen)) paintCard(ctx, what, id, onScreen(box), camera.zoom, palette);
    }
  }
  for (const edge of what.edges) if (overlap(edge.extent, seen)) paintEdge(ctx, edge, camera, palette);
  paintCounts(ctx, what.edges, seen, camera, palette);
}

/** Line width in window pixels, at most half of what the gutter has. */
function paintEdge(ctx: CanvasRenderingContext2D, edge: Edge, camera: Camera, palette: Palette): void {
  const onScreen = ({ x, y }: Point): Point => ({ x: x * camera.zoom + camera.x, y: y * camera.zoom + camera.y });
  const points = edge.points.map(onScreen);
  const room = edge.narrowest * camera.zoom;
  const width = Math.min(4, 1 + Math.log2(edge.count) / 2, Math.max(1, room / 3));
  const dashes = room < MIN_DASHED ? [] : [...DASHES[edge.state]];
  ctx.lineJoin = "round";
  ctx.strokeStyle = palette.status[EDGE_COLOURS[edge.state]];
  ctx.fillStyle = ctx.strokeStyle;
  ctx.lineWidth = width;
  ctx.setLineDash(dashes);
  ctx.beginPath();
  for (const { around, to } of roundedLine(points, CORNER * camera.zoom)) {
    if (around) ctx.quadraticCurveTo(around.x, around.y, to.x, to.y);
    else ctx.lineTo(to.x, to.y);
  }
  ctx.stroke();
  ctx.setLineDash([]);
  const [tip, left, right] = headOf(points, Math.min(8, Math.max(4, room * 0.6)));
  ctx.beginPath();
  ctx.moveTo(tip.x, tip.y);
  ctx.lineTo(left.x, left.y);
  ctx.lineTo(right.x, right.y);
  ctx.fill();
}

/** The counts of lines between teams, where the gutter has room for them. */
function paintCounts(ctx: CanvasRenderingContext2D, edges: readonly Edge[], seen: Box, camera: Camera, palette: Palette): void {
  const taken: Point[] = [];
  ctx.font = `600 ${TEXT_PIXELS}px ${palette.font}`;
  ctx.textBaseline = "middle";
  ctx.textAlign = "center";
  ctx.lineWidth = 3;
  ctx.lineJoin = "round";
  ctx.strokeStyle = palette.page;
  for (const edge of edges) {
    const text = countOf(edge);
    if (text === "" || edge.room.height * camera.zoom < COUNT_ROOM || !overlap(edge.extent, seen)) continue;
    const at = { x: edge.room.x * camera.zoom + camera.x, y: edge.room.y * camera.zoom + camera.y };
    if (edge.room.length * camera.zoom < 2 * TEXT_PIXELS) continue;
    if (taken.some((other) => Math.abs(other.x - at.x) < 2 * TEXT_PIXELS && Math.abs(other.y - at.y) < TEXT_PIXELS)) continue;
    taken.push(at);
    ctx.fillStyle = palette.status[EDGE_COLOURS[edge.state]];
    ctx.strokeText(text, at.x, at.y);
    ctx.fillText(text, at.x, at.y);
  }
  ctx.textAlign = "start";
}

const CORNER = 8;
/** Dashes of narrower lines run together. */
const MIN_DASHED = 3;
const COUNT_ROOM = 9;
/** Narrower frames have no bar: they are nearly all bar. */
const MIN_BAR = 40;

/** Edges use the colours of the matching agent status. */
const EDGE_COLOURS: Readonly<Record<EdgeState, AgentStatus>> = { waiting: "degraded", working: "working", done: "online", failed: "failed", message: "offline" };

function paintFrame(ctx: CanvasRenderingContext2D, what: Painted, id: string, frame: Frame, box: Box, zoom: number, palette: Palette): void {
  ctx.fillStyle = frame.depth % 2 === 0 ? palette.sunk : palette.page;
  ctx.strokeStyle = palette.line;
  ctx.lineWidth = 1;
  rounded(ctx, box, 14 * zoom);
  ctx.fill();
  ctx.stroke();
  const team = what.teams.get(id);
  if (!isTitled(frame, zoom)) {
    if (team && zoom < FAR_ZOOM && box.w > MIN_BAR) bar(ctx, box, palette.status[team.worst]);
    return;
  }
  const size = titlePixels(frame.title, zoom);
  const [middle, inset] = [box.y + (frame.title * zoom) / 2, Math.max(5, 10 * zoom)];
  if (team) glyph(ctx, team.worst, box.x + inset + size * 0.45, middle, size * 0.9, palette);
  const count = team ? String(team.size) : "";
  const left = box.x + inset + size * 1.25;
  ctx.textBaseline = "middle";
  ctx.font = `600 ${size}px ${palette.font}`;
  const countWidth = ctx.measureText(count).width + size * 0.5;
  const room = box.x + box.w - inset - left;
  const whole = what.name(id);
  // The name has the room of the count where it needs that to be whole.
  const name = shortened(ctx, whole, shortened(ctx, whole, room) === whole ? room : room - countWidth);
  ctx.fillStyle = palette.text;
  ctx.fillText(name, left, middle);
  const end = left + (name === "" ? 0 : ctx.measureText(name).width + size * 0.5);
  ctx.fillStyle = palette.muted;
  ctx.font = `${size}px ${palette.font}`;
  if (end + countWidth <= box.x + box.w) ctx.fillText(count, end, middle);
}

/** The worst status of a team as the border of its block. */
function bar(ctx: CanvasRenderingContext2D, box: Box, colour: string): void {
  ctx.fillStyle = colour;
  ctx.fillRect(box.x, box.y, 3, box.h);
}

function paintDots(ctx: CanvasRenderingContext2D, what: Painted, seen: Box, onScreen: (box: Box) => Box, palette: Palette): void {
  for (const [id, card] of what.layout.cards) {
    if (!overlap(card, seen)) continue;
    const box = onScreen(card);
    ctx.globalAlpha = isDimmed(what, id) ? 0.2 : 1;
    ctx.fillStyle = palette.status[what.statusOf(id)];
    ctx.fillRect(box.x, box.y, Math.max(1, box.w), Math.max(1, box.h));
  }
  ctx.globalAlpha = 1;
}

function paintCard(ctx: CanvasRenderingContext2D, what: Painted, id: string, box: Box, zoom: number, palette: Palette): void {
  const status = what.statusOf(id);
  ctx.globalAlpha = isDimmed(what, id) ? 0.25 : 1;
  ctx.fillStyle = palette.card;
  ctx.strokeStyle = what.selected === id ? palette.accent : palette.line;
  ctx.lineWidth = what.selected === id ? 2 : 1;
  rounded(ctx, box, 10 * zoom);
  ctx.fill();
  ctx.stroke();
  const isTeam = what.folded.has(id) && what.teams.has(id);
  if (isTeam) paintStack(ctx, box, zoom, palette);
  const middle = box.y + box.h / 2;
  if (zoom >= NAME_ZOOM) {
    const inset = 10 * zoom;
    glyph(ctx, status, box.x + inset + TEXT_PIXELS / 2, middle, TEXT_PIXELS, palette);
    const left = box.x + inset + 1.4 * TEXT_PIXELS;
    ctx.font = `600 ${TEXT_PIXELS}px ${palette.font}`;
    ctx.textBaseline = "middle";
    const below = isTeam ? `+${(what.teams.get(id)?.size ?? 1) - 1}` : "";
    const right = box.x + box.w - inset - (below === "" ? 0 : ctx.measureText(below).width + 4);
    ctx.fillStyle = palette.text;
    ctx.fillText(shortened(ctx, what.name(id), right - left), left, middle);
    ctx.fillStyle = palette.status[what.teams.get(id)?.worst ?? status];
    if (below !== "") ctx.fillText(below, right + 4, middle);
  } else {
    const shown = isTeam ? (what.teams.get(id)?.worst ?? status) : status;
    glyph(ctx, shown, box.x + box.w / 2, middle, Math.max(5, box.h * 0.55), palette);
  }
  ctx.globalAlpha = 1;
}

/** The card of a collapsed team has another one behind it. */
function paintStack(ctx: CanvasRenderingContext2D, box: Box, zoom: number, palette: Palette): void {
  const aside = Math.max(2, 4 * zoom);
  ctx.strokeStyle = palette.line;
  ctx.lineWidth = Math.max(1, 2 * zoom);
  ctx.beginPath();
  ctx.moveTo(box.x + box.w + aside, box.y + aside * 2);
  ctx.lineTo(box.x + box.w + aside, box.y + box.h + aside);
  ctx.lineTo(box.x + aside * 2, box.y + box.h + aside);
  ctx.stroke();
}

function isDimmed(what: Painted, id: string): boolean {
  return what.matches !== null && !what.matches.has(id);
}

function rounded(ctx: CanvasRenderingContext2D, box: Box, radius: number): void {
  ctx.beginPath();
  ctx.roundRect(box.x, box.y, box.w, box.h, Math.max(1, radius));
}

/** The shapes of the DOM glyphs, around a centre. */
function glyph(ctx: CanvasRenderingContext2D, status: AgentStatus, x: number, y: number, size: number, palette: Palette): void {
  const r = size / 2;
  ctx.fillStyle = palette.status[status];
  ctx.strokeStyle = palette.status[status];
  ctx.lineWidth = Math.max(1, size / 7);
  ctx.setLineDash(status === "provisioning" ? [size / 8, size / 8] : []);
  ctx.beginPath();
  if (status === "failed") cross(ctx, x, y, r * 0.7);
  else if (status === "waiting") diamond(ctx, x, y, r);
  else if (status === "peer") arrowToWall(ctx, x, y, r * 0.8);
  else if (status === "queued") hourglass(ctx, x, y, r * 0.7);
  else if (status === "limited") clockFace(ctx, x, y, r * 0.75);
  else if (status === "paused") bars(ctx, x, y, r * 0.7);
  else ctx.arc(x, y, r * 0.75, 0, status === "working" ? Math.PI * 1.5 : Math.PI * 2);
  if (status === "online" || status === "waiting") ctx.fill();
  else ctx.stroke();
  ctx.setLineDash([]);
  if (status === "degraded") half(ctx, x, y, r * 0.75);
}

function cross(ctx: CanvasRenderingContext2D, x: number, y: number, r: number): void {
  ctx.moveTo(x - r, y - r);
  ctx.lineTo(x + r, y + r);
  ctx.moveTo(x + r, y - r);
  ctx.lineTo(x - r, y + r);
}

function diamond(ctx: CanvasRenderingContext2D, x: number, y: number, r: number): void {
  ctx.moveTo(x, y - r);
  ctx.lineTo(x + r, y);
  ctx.lineTo(x, y + r);
  ctx.lineTo(x - r, y);
  ctx.closePath();
}

function hourglass(ctx: CanvasRenderingContext2D, x: number, y: number, r: number): void {
  ctx.moveTo(x - r, y - r);
  ctx.lineTo(x + r, y - r);
  ctx.lineTo(x - r, y + r);
  ctx.lineTo(x + r, y + r);
  ctx.closePath();
}

function arrowToWall(ctx: CanvasRenderingContext2D, x: number, y: number, r: number): void {
  ctx.moveTo(x - r, y);
  ctx.lineTo(x + r * 0.4, y);
  ctx.moveTo(x - r * 0.2, y - r * 0.6);
  ctx.lineTo(x + r * 0.4, y);
  ctx.lineTo(x - r * 0.2, y + r * 0.6);
  ctx.moveTo(x + r, y - r);
  ctx.lineTo(x + r, y + r);
}

function bars(ctx: CanvasRenderingContext2D, x: number, y: number, r: number): void {
  ctx.moveTo(x - r / 2, y - r);
  ctx.lineTo(x - r / 2, y + r);
  ctx.moveTo(x + r / 2, y - r);
  ctx.lineTo(x + r / 2, y + r);
}

function clockFace(ctx: CanvasRenderingContext2D, x: number, y: number, r: number): void {
  ctx.arc(x, y, r, 0, Math.PI * 2);
  ctx.moveTo(x, y - r * 0.6);
  ctx.lineTo(x, y);
  ctx.lineTo(x + r * 0.4, y + r * 0.25);
}

function half(ctx: CanvasRenderingContext2D, x: number, y: number, r: number): void {
  ctx.beginPath();
  ctx.arc(x, y, r, -Math.PI / 2, Math.PI / 2);
  ctx.fill();
}
