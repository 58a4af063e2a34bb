/** The edges of the map as SVG, with labels where they fit into a gutter. The delegations tab of each agent has the same as
 * text. */

import { memo } from "react";
import { BUNDLE_ZOOM, countOf, DASHES, EDGE_WORDS, headOf, labelOf, titleOf, type Edge, type Edges, type EdgeState } from "./edges";
import css from "./OrgMap.module.css";
import { rounded, type Point } from "./routes";

const HEAD = 9;
/** Painting more dashes costs too much: above so many lines they do not move, and are twice as long. */
const MAX_FINE = 40;

interface Props {
  edges: Edges;
  nameOf: (id: string) => string;
}

export const MessageEdges = memo(function MessageEdges({ edges, nameOf }: Props) {
  if (edges.shown.length === 0) return null;
  const many = edges.shown.length > MAX_FINE;
  return (
    <svg className={css.edges} width="1" height="1" aria-hidden="true" focusable="false" data-still={many || undefined}>
      {edges.shown.map((edge) => {
        const path = pathOf(edge.points);
        return (
          <g key={edge.key} className={css[edge.state]} data-edge={edge.state} data-count={edge.count} data-link={edge.key}>
            {!many && <path className={css.casing} d={path} />}
            <path d={path} data-line strokeDasharray={dashesOf(edge, many ? 2 : 1)} strokeWidth={widthOf(edge)} />
            <polygon points={headOf(edge.points, HEAD).map(({ x, y }) => `${x},${y}`).join(" ")} />
            <path className={css.hit} d={path}>
              <title>{titleOf(edge, nameOf)}</title>
            </path>
          </g>
        );
      })}
    </svg>
  );
});

/** Apart from the lines: which labels fit depends on the zoom. */
export const EdgeLabels = memo(function EdgeLabels({ edges, nameOf, zoom }: Props & { zoom: number }) {
  const labels = placedLabels(edges.shown, zoom);
  if (labels.length === 0) return null;
  return (
    <svg className={css.edges} width="1" height="1" aria-hidden="true" focusable="false">
      {labels.map(({ edge, text, at, half, height }) => (
        <g key={edge.key} className={`${css.label} ${css[edge.state]}`} data-link={edge.key}>
          <title>{titleOf(edge, nameOf)}</title>
          <rect x={at.x - half} y={at.y - height / 2} width={2 * half} height={height} rx={height / 3} />
          <text x={at.x} y={at.y}>
            {text}
          </text>
        </g>
      ))}
    </svg>
  );
});

function dashesOf({ state }: Edge, scale: number): string | undefined {
  return DASHES[state].map((length) => length * scale).join(" ") || undefined;
}

/** Several delegations make a line wider, within its lane. */
function widthOf({ count }: Edge): number {
  return Math.min(4, 1.5 + Math.log2(count) / 2);
}

function pathOf(points: readonly Point[]): string {
  return rounded(points)
    .map(({ around, to }, index) => (around ? `Q${around.x} ${around.y} ${to.x} ${to.y}` : `${index === 0 ? "M" : "L"}${to.x} ${to.y}`))
    .join("");
}

interface Label {
  edge: Edge;
  text: string;
  at: Point;
  /** Half of its width, and its height, on the map. */
  half: number;
  height: number;
}

/** Half of the width of a character of a label, on average, and the least and greatest height of its box, in pixels. */
const HALF_CHARACTER = 3.5;
const LABEL_HEIGHT = 13;
const MAX_LABEL_HEIGHT = 17;
/** Part of a stretch that a label leaves free at both ends together. */
const FREE_PIXELS = 28;
const LEAST_CHARACTERS = 4;
const MOST_CHARACTERS = 30;

/** A label fits into the longest horizontal stretch of its line, and none covers another one. */
function placedLabels(edges: readonly Edge[], zoom: number): Label[] {
  const unit = 1 / zoom;
  const found: Label[] = [];
  for (const edge of edges) {
    const { x, length, gutter, height: room } = edge.room;
    const most = Math.min(MOST_CHARACTERS, Math.floor((length / unit - FREE_PIXELS) / (2 * HALF_CHARACTER)));
    const text = zoom < BUNDLE_ZOOM ? countOf(edge) : most < LEAST_CHARACTERS ? "" : labelOf(edge, most);
    if (text === "" || text.length > most || room < LABEL_HEIGHT * unit) continue;
    const half = (HALF_CHARACTER * text.length + 4) * unit;
    const height = Math.min(MAX_LABEL_HEIGHT * unit, room);
    const free = (room - height) / 2; // not over the cards beside the gutter, if the line runs near them
    const y = gutter + Math.max(-free, Math.min(free, edge.room.y - gutter));
    if (found.some(({ at, ...other }) => Math.abs(at.y - y) < height && Math.abs(at.x - x) < other.half + half)) continue;
    found.push({ edge, text, at: { x, y }, half, height });
  }
  return found;
}

/** The meaning of the shown edges, and how many are left out. */
export function EdgeLegend({ edges }: { edges: Edges }) {
  const states = Object.keys(EDGE_WORDS) as EdgeState[];
  const present = states.filter((state) => edges.shown.some((edge) => edge.state === state));
  if (present.length === 0) return null;
  return (
    <p className={css.legend}>
      {present[0] !== "message" && <span>Tasks:</span>}
      {present.map((state) => (
        <span key={state} className={css.sample} data-sample={state}>
          <svg className={`${css.edges} ${css[state]}`} width="24" height="10" aria-hidden="true" focusable="false">
            <path d="M1 5H23" strokeDasharray={DASHES[state].join(" ") || undefined} strokeWidth="2" />
          </svg>
          {EDGE_WORDS[state].toLowerCase()}
        </span>
      ))}
      {edges.more > 0 && <span>+{edges.more} more lines</span>}
    </p>
  );
}
