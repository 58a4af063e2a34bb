/** Makes a seat, shows once how to take it, and watches the agent arrive. */

import { useState } from "react";
import type { Connection } from "../live/api";
import { Arrival } from "./Arrival";
import css from "./ConnectView.module.css";
import { SeatForm } from "./SeatForm";

export function ConnectView() {
  const [made, setMade] = useState<Connection | null>(null);
  return (
    <div className={css.connect}>
      <div className={css.inside}>
        <h2 className={css.title}>Connect an agent</h2>
        {made === null ? (
          <SeatForm onMade={setMade} />
        ) : (
          <Arrival connection={made} onHide={() => setMade(masked(made))} onAnother={() => setMade(null)} />
        )}
      </div>
    </div>
  );
}

const MASK = "••••••••";

/** Without the token: what is not kept cannot be read later. */
function masked(connection: Connection): Connection {
  const hide = (text: string): string => (connection.token === "" ? text : text.replaceAll(connection.token, MASK));
  return { ...connection, token: "", curl: hide(connection.curl), python: hide(connection.python) };
}
