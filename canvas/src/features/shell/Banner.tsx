/** Says that the page is not live and as of when its data is, that a login link failed, and asks before it changes who is
 * logged in. */

import { useApp, useSession } from "../../core/app";
import { Button, IconButton } from "../../ui/Button";
import { Icon } from "../../ui/Icon";
import { useStored } from "../../core/store/store";
import { clock } from "../../core/text/time";
import css from "./Banner.module.css";

export function Banner() {
  const { connection, data, identity } = useSession();
  const app = useApp();
  const { linkError } = app;
  const { mode, lastFrameAt } = useStored(connection.view);
  const hasData = useStored(data) !== null;
  const refusal = useStored(linkError);
  const other = useStored(app.otherLogin);
  const updated = useStored(app.updated);
  return (
    <div className={css.holder}>
      {refusal !== null && (
        <div className={css.banner} role="alert">
          <Icon name="warning" />
          <p>
            <strong>{refusal}</strong> You are still logged in as <bdi>{identity.user.name}</bdi>.
          </p>
          <IconButton icon="close" label="Dismiss" onClick={() => linkError.set(null)} />
        </div>
      )}
      {other !== null && (
        <div className={css.banner} role="alert">
          <Icon name="warning" />
          <p>
            <strong>
              This link logs in as <bdi>{other}</bdi>.
            </strong>{" "}
            You are logged in as <bdi>{identity.user.name}</bdi>.
          </p>
          <Button kind="quiet" onClick={() => void app.replaceSession()}>
            Continue as {other}
          </Button>
          <Button kind="quiet" onClick={() => app.keepSession()}>
            Stay
          </Button>
        </div>
      )}
      <div role="status" aria-live="polite">
        {mode === "lost" && (
          <div className={css.banner}>
            <Icon name="warning" />
            <p>
              <strong>Connection lost, retrying.</strong> {hasData && `Showing data from ${clock(lastFrameAt)}.`}
            </p>
            <Button kind="quiet" onClick={connection.retry}>
              Retry now
            </Button>
          </div>
        )}
        {(mode === "outdated" || (updated && mode !== "lost")) && (
          <div className={css.banner}>
            <Icon name="again" />
            <p>
              <strong>Molecule was updated.</strong> This page is still the previous version.
            </p>
            <Button kind="quiet" onClick={() => location.reload()}>
              Reload
            </Button>
          </div>
        )}
      </div>
    </div>
  );
}
