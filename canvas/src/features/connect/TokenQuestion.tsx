/** The question before a token that is shown only once disappears. */

import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import css from "./ConnectView.module.css";

export function TokenQuestion({ onGo, onStay }: { onGo: () => void; onStay: () => void }) {
  return (
    <Dialog label="Have you copied the token?" onClose={onStay}>
      <div className={css.question}>
        <p>The token is shown only once and cannot be shown again after you continue. Issuing a new token revokes this one.</p>
        <div className={css.after}>
          <Button kind="primary" onClick={onStay}>
            Back to token
          </Button>
          <Button onClick={onGo}>Continue</Button>
        </div>
      </div>
    </Dialog>
  );
}
