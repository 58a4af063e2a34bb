/** Tells that the page is not live, and as of when it shows what it shows. */

import { useDesk } from "../app";
import { Button } from "../parts/Button";
import { Icon } from "../parts/Icon";
import { useStored } from "../state/store";
import { clock } from "../text/time";
import css from "./Banner.module.css";

export function Banner() {
  const { connection, data } = useDesk();
  const { mode, heardAt } = useStored(connection.view);
  const hasData = useStored(data) !== null;
  return (
    <div className={css.holder} role="status" aria-live="polite">
      {mode === "lost" && (
        <div className={css.banner}>
          <Icon name="warning" />
          <p>
            <strong>Connection lost, retrying.</strong> {hasData && `What you see is as of ${clock(heardAt)}.`}
          </p>
          <Button kind="quiet" onClick={connection.retry}>
            Retry now
          </Button>
        </div>
      )}
      {mode === "outdated" && (
        <div className={css.banner}>
          <Icon name="again" />
          <p>
            <strong>Molecule was updated.</strong> This page is of the version before.
          </p>
          <Button kind="quiet" onClick={() => location.reload()}>
            Reload
          </Button>
        </div>
      )}
    </div>
  );
}
