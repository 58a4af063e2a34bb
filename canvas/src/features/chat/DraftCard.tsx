/** An answer that an agent wrote and did not send. A person accepts it as the answer, edited or not, or dismisses it. */

import { useId, useState } from "react";
import { useSession } from "../../core/app";
import type { MessageRef } from "../../core/api/api";
import { Button } from "../../ui/Button";
import { MessageText } from "../../ui/MessageText";
import css from "./DraftCard.module.css";
import { ActionProblem, useAction } from "../../ui/useAction";

interface Props {
  asked: MessageRef;
  draft: string;
  agentName: string;
  /** Who asked, and gets the answer. */
  askedBy: string;
  /** Called after it was sent or discarded. */
  onDone?: () => void | Promise<void>;
}

export function DraftCard({ asked, draft, agentName, askedBy, onDone }: Props) {
  const { api, canSend } = useSession();
  const [edited, setEdited] = useState<string | null>(null);
  const action = useAction();
  const send = (words: string | null): void => action.run(() => api.sendDraft(asked, words), "Answer accepted", onDone);
  return (
    <div className={css.draft} role="group" aria-label={`Unsent answer of ${agentName}`}>
      <p className={css.about}>
        <strong>
          <bdi>{agentName}</bdi>’s unsent answer
        </strong>
        . Accepting it sends it to <bdi>{askedBy}</bdi>.
      </p>
      {edited === null ? (
        <div className={css.words}>
          <MessageText text={draft} />
        </div>
      ) : (
        <Editor words={edited} onChange={setEdited} />
      )}
      {!canSend ? (
        <p className={css.about}>Only operators and owners can accept it.</p>
      ) : edited === null ? (
        <div className={css.deeds}>
          <Button kind="primary" icon="check" disabled={action.busy} onClick={() => send(null)}>
            Accept as answer
          </Button>
          <Button disabled={action.busy} onClick={() => setEdited(draft)}>
            Edit
          </Button>
          <Button
            disabled={action.busy}
            onClick={() => action.run(() => api.discardDraft(asked), "Answer dismissed", onDone)}
          >
            Dismiss
          </Button>
        </div>
      ) : (
        <div className={css.deeds}>
          <Button kind="primary" icon="check" disabled={action.busy || edited.trim() === ""} onClick={() => send(edited)}>
            Accept edited answer
          </Button>
          <Button disabled={action.busy} onClick={() => setEdited(null)}>
            Cancel
          </Button>
        </div>
      )}
      <ActionProblem action={action} className={css.problem} />
    </div>
  );
}

function Editor({ words, onChange }: { words: string; onChange: (words: string) => void }) {
  const id = useId();
  return (
    <>
      <label htmlFor={id} className="visually-hidden">
        Answer to send
      </label>
      <textarea id={id} className={css.editor} value={words} rows={4} autoFocus dir="auto" onChange={(event) => onChange(event.target.value)} />
    </>
  );
}
