/** Makes a seat, shows once how to take it, and watches the agent arrive. */

import { useState } from "react";
import type { Connection } from "../live/api";
import { Arrival } from "./Arrival";
import css from "./ConnectView.module.css";
import { SeatForm } from "./SeatForm";
import { useHosts } from "./useHosts";

export function ConnectView() {
  const [made, setMade] = useState<Connection | null>(null);
  const hosts = useHosts();
  return (
    <div className={css.connect}>
      <div className={css.inside}>
        <h2 className={css.title}>Connect an agent</h2>
        {made === null ? (
          <SeatForm hosts={hosts} onMade={setMade} />
        ) : (
          // What is not kept cannot be read later.
          <Arrival connection={made} hosts={hosts} onHide={() => setMade({ ...made, token: "" })} onAnother={() => setMade(null)} />
        )}
      </div>
    </div>
  );
}
