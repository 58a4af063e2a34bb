/** The edges of the map as SVG. The delegations tab of each agent has the same as text. */

import { memo } from "react";
import { DASHES, headOf, type Edges, type EdgeState } from "./edges";
import css from "./OrgMap.module.css";

const HEAD = 9;
const WORDS: Readonly<Record<EdgeState, string>> = { waiting: "waiting", working: "working", done: "answered", failed: "failed", message: "messages" };

export const MessageEdges = memo(function MessageEdges({ edges }: { edges: Edges }) {
  if (edges.shown.length === 0) return null;
  return (
    <svg className={css.edges} width="1" height="1" aria-hidden="true" focusable="false">
      {edges.shown.map((edge) => (
        <g key={edge.key} className={css[edge.state]} data-edge={edge.state} data-count={edge.count}>
          <path
            d={`M${edge.from.x} ${edge.from.y}L${edge.to.x} ${edge.to.y}`}
            strokeDasharray={DASHES[edge.state].join(" ") || undefined}
            strokeWidth={Math.min(5, 1.5 + Math.log2(edge.count))}
          />
          <polygon points={headOf(edge, HEAD).map(({ x, y }) => `${x},${y}`).join(" ")} />
        </g>
      ))}
    </svg>
  );
});

/** The meaning of the shown edges, and how many are left out. */
export function EdgeLegend({ edges }: { edges: Edges }) {
  const states = Object.keys(WORDS) as EdgeState[];
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
          {WORDS[state]}
        </span>
      ))}
      {edges.more > 0 && <span>+{edges.more} more lines</span>}
    </p>
  );
}
