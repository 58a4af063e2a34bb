/** Makes a seat, shows once how to take it, and watches the agent arrive. */

import { useEffect } from "react";
import { useDesk } from "../../core/app";
import { useStored } from "../../core/store/store";
import { Arrival } from "./ConnectionStatus";
import css from "./ConnectView.module.css";
import { SeatForm } from "./WorkspaceForm";
import { useHosts } from "./useHosts";

export function ConnectView() {
  const desk = useDesk();
  const made = useStored(desk.made);
  // Whoever comes back finds a token that they had not put away, and else a new form.
  useEffect(() => () => desk.made.update((last) => (last?.token === "" ? null : last)), [desk]);
  const hosts = useHosts();
  return (
    <div className={css.connect}>
      <div className={css.inside}>
        <h2 className={css.title}>Connect an agent</h2>
        {made === null ? (
          <SeatForm hosts={hosts} onMade={desk.made.set} />
        ) : (
          <Arrival connection={made} hosts={hosts} onHide={() => desk.made.set({ ...made, token: "" })} onAnother={() => desk.made.set(null)} />
        )}
      </div>
    </div>
  );
}
