/** Where a person writes. What was begun is kept per conversation until it is sent. */

import { useEffect, useId, useRef, useState, type KeyboardEvent } from "react";
import { useData, useDesk, useSettings } from "../app";
import { Button } from "../parts/Button";
import { bytesOf, sizeText } from "../text/words";
import css from "./Composer.module.css";

/** From this part of the limit on, the page shows how much is left. */
const TELL_FROM = 0.8;

interface Props {
  workspaceId: string;
  name: string;
  autoFocus: boolean;
  onSent: () => void;
}

export function Composer({ workspaceId, name, autoFocus, onSent }: Props) {
  const desk = useDesk();
  const { enterSends } = useSettings();
  const limit = useData((state) => state.limits.text_bytes);
  const [words, setWords] = useState(() => desk.drafts.read(workspaceId));
  const field = useRef<HTMLTextAreaElement>(null);
  const hint = useId();
  const refused = desk.maySend ? null : "You may read here, but not write: your role is viewer. An owner can change it.";
  const used = bytesOf(words);
  const tooLong = used > limit;
  const empty = words.trim() === "";

  useEffect(() => {
    if (autoFocus) field.current?.focus({ preventScroll: true });
  }, [autoFocus]);

  const change = (next: string): void => {
    setWords(next);
    desk.drafts.write(workspaceId, next);
  };
  const send = (): void => {
    if (empty || tooLong || refused !== null) return;
    void desk.write(workspaceId, words);
    change("");
    onSent();
    field.current?.focus();
  };
  const onKey = (event: KeyboardEvent): void => {
    if (event.key !== "Enter" || event.nativeEvent.isComposing) return;
    const withControl = event.ctrlKey || event.metaKey;
    if (event.shiftKey || (!enterSends && !withControl)) return;
    event.preventDefault();
    send();
  };

  return (
    <form
      className={css.composer}
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <div className={css.field}>
        <textarea
          ref={field}
          className={css.text}
          rows={1}
          aria-label={`Message to ${name}`}
          aria-describedby={hint}
          aria-invalid={tooLong || undefined}
          placeholder={refused === null ? `Message ${name}` : ""}
          disabled={refused !== null}
          value={words}
          onChange={(event) => change(event.target.value)}
          onKeyDown={onKey}
        />
        <Button type="submit" kind="primary" icon="send" disabled={empty || tooLong || refused !== null}>
          Send
        </Button>
      </div>
      <p id={hint} className={tooLong ? css.over : css.hint}>
        {refused ?? (used > limit * TELL_FROM ? lengthWords(used, limit) : enterSends ? "Enter sends, Shift Enter makes a new line" : "Ctrl Enter sends")}
      </p>
    </form>
  );
}

function lengthWords(used: number, limit: number): string {
  if (used > limit) return `${sizeText(used - limit)} too long: a message holds ${sizeText(limit)}`;
  return `${sizeText(limit - used)} left of ${sizeText(limit)}`;
}
