/** The initials of a name on a tint; decorative, the name is beside it. Those of agents are distinct in the organisation. */

import { useData } from "../core/app";
import { initialsByAgent } from "../core/state/initials";
import { initials, tintOf } from "../core/text/strings";
import css from "./Avatar.module.css";

const TINTS = [css.t0, css.t1, css.t2, css.t3, css.t4, css.t5];

interface Props {
  name: string;
  /** Of the agent; without one the initials are those of the name alone. */
  id?: string;
  size?: "small" | "normal" | "large";
}

export function Avatar({ id, ...of }: Props) {
  return id === undefined ? <Tile {...of} letters={initials(of.name)} /> : <AgentTile {...of} id={id} />;
}

function AgentTile({ id, name, size }: Props & { id: string }) {
  const letters = useData((state) => initialsByAgent(state.orgNodes).get(id)) ?? initials(name);
  return <Tile name={name} letters={letters} {...(size ? { size } : {})} />;
}

function Tile({ name, letters, size = "normal" }: Omit<Props, "id"> & { letters: string }) {
  return (
    <span className={`${css.avatar} ${css[size]} ${TINTS[tintOf(name, TINTS.length)]}`} data-long={letters.length > 2 || undefined} aria-hidden="true">
      {letters}
    </span>
  );
}
