/** Message input with attachments. The draft is kept per conversation until it is sent. */

import { useCallback, useEffect, useId, useLayoutEffect, useRef, useState, type ClipboardEvent, type KeyboardEvent } from "react";
import { useData, useSession, useSettings } from "../../core/app";
import { announce } from "../../ui/Announcer";
import { Button, IconButton } from "../../ui/Button";
import type { ChosenFile } from "../../core/session/chosenFiles";
import type { MessageTiming } from "../../core/session/outbox";
import { useSelected, useStored } from "../../core/store/store";
import { fileProblem } from "../../core/text/files";
import { bytesOf, plural, sizeText } from "../../core/text/strings";
import { ChosenFileList } from "./ChosenFileList";
import { ActionProblem, useAction } from "../../ui/useAction";
import { isComposing } from "../../ui/keyboard";
import { CompletionList } from "./CompletionList";
import css from "./Composer.module.css";
import { FilePicker } from "./FilePicker";
import { useCompletions } from "./useCompletions";
import { withQuote } from "./quotes";
import { ReplyBar } from "./ReplyBar";
import { filesOf } from "./useFileDrop";

const NONE: readonly ChosenFile[] = [];

/** From this share of the limit on, the remaining length is shown. */
const SHOW_LIMIT_FROM = 0.8;

interface Props {
  workspaceId: string;
  name: string;
  autoFocus: boolean;
  /** Whether the agent works on a message: then the person chooses when the next one arrives. */
  working: boolean;
  onSent: () => void;
}

export function Composer({ workspaceId, name, autoFocus, working, onSent }: Props) {
  const session = useSession();
  const { enterSends } = useSettings();
  const limit = useData((state) => state.limits.text_bytes);
  const [words, setWords] = useState(() => session.drafts.read(workspaceId));
  const field = useRef<HTMLTextAreaElement>(null);
  const picker = useRef<HTMLInputElement>(null);
  const chosen = useSelected(session.chosenFiles.all, (all) => all.get(workspaceId)) ?? NONE;
  const limits = useStored(session.uploadLimits);
  const hint = useId();
  const [when, setWhen] = useState<MessageTiming>("queue");
  const refused = session.canSend ? null : "Viewers can read messages but not send them. Ask an owner to change your role.";
  const reply = useSelected(session.replyTargets, (all) => all.get(workspaceId)) ?? null;
  const used = bytesOf(withQuote(reply?.line ?? "", words));
  const tooLong = used > limit;
  const empty = words.trim() === "" && chosen.length === 0;
  const blocked = empty || tooLong || refused !== null || chosen.some(({ file }, place) => fileProblem(file, place, limits) !== null);

  useEffect(() => {
    if (autoFocus) field.current?.focus({ preventScroll: true });
  }, [autoFocus]);
  useEffect(() => {
    if (session.canSend) void session.readUploadLimits();
  }, [session]);
  const replied = useRef(reply?.messageId);
  useEffect(() => {
    if (reply !== null && reply.messageId !== replied.current) field.current?.focus();
    replied.current = reply?.messageId;
  }, [reply]);
  const action = useAction();

  const change = (next: string): void => {
    setWords(next);
    session.drafts.write(workspaceId, next);
  };
  const caret = useRef<number | null>(null);
  useLayoutEffect(() => {
    if (caret.current !== null) field.current?.setSelectionRange(caret.current, caret.current);
    caret.current = null;
  }, [words]);
  const completions = useCompletions({
    workspaceId,
    words,
    field,
    onText: (next, place) => {
      caret.current = place;
      change(next);
    },
    onCommand: ({ run, done }) => {
      change("");
      action.run(run, done);
    },
  });
  const send = (): void => {
    if (blocked) return;
    const said = words.trim() === "" ? "" : words;
    void session.sendMessage(workspaceId, withQuote(reply?.line ?? "", said), { when: working ? when : "queue", replyTo: reply?.messageId ?? null });
    session.replyTargets.choose(workspaceId, null);
    setWhen("queue");
    change("");
    onSent();
    field.current?.focus();
  };
  const attach = useCallback(
    (files: readonly File[]): void => {
      session.chosenFiles.add(workspaceId, files);
      announce(`${plural(files.length, "file")} attached`);
    },
    [session, workspaceId],
  );
  const pick = useCallback(
    (files: readonly File[]): void => {
      attach(files);
      field.current?.focus();
    },
    [attach],
  );
  const onPaste = (event: ClipboardEvent): void => {
    const files = filesOf(event.clipboardData);
    // Text copied from a document comes with a picture of it; the text is meant.
    if (files.length === 0 || event.clipboardData.types.includes("text/plain")) return;
    event.preventDefault();
    attach(files);
  };
  const remove = (key: string): void => {
    session.chosenFiles.remove(workspaceId, key);
    field.current?.focus();
  };
  const onKey = (event: KeyboardEvent): void => {
    if (!isComposing(event.nativeEvent) && completions.onKey(event)) return;
    if (event.key === "Escape" && reply !== null && !isComposing(event.nativeEvent)) {
      event.preventDefault();
      session.replyTargets.choose(workspaceId, null);
      return;
    }
    if (event.key !== "Enter" || isComposing(event.nativeEvent)) return;
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
      {working && refused === null && <TimingChoice name={name} when={when} onChange={setWhen} />}
      {reply !== null && <ReplyBar target={reply} onCancel={() => session.replyTargets.choose(workspaceId, null)} />}
      <ActionProblem action={action} className={css.over} />
      <ChosenFileList chosen={chosen} limits={limits} onRemove={remove} />
      <div className={css.field}>
        {completions.open && <CompletionList completions={completions} name={name} />}
        <IconButton icon="attach" label="Attach files" disabled={refused !== null} onClick={() => picker.current?.click()} />
        <FilePicker field={picker} onPick={pick} />
        <textarea
          ref={field}
          className={css.text}
          rows={1}
          dir="auto"
          aria-label={`Message to ${name}`}
          aria-describedby={hint}
          aria-invalid={tooLong || undefined}
          aria-autocomplete="list"
          aria-controls={completions.open ? completions.listId : undefined}
          aria-activedescendant={completions.open ? completions.optionId(completions.active) : undefined}
          placeholder={refused === null ? `Message ${name}` : ""}
          disabled={refused !== null}
          value={words}
          onChange={(event) => change(event.target.value)}
          onKeyDown={onKey}
          onSelect={completions.onSelect}
          onBlur={completions.close}
          onPaste={onPaste}
        />
        <Button type="submit" kind="primary" icon="send" disabled={blocked}>
          Send
        </Button>
      </div>
      <p id={hint} className={tooLong ? css.over : css.hint}>
        {refused ?? (used > limit * SHOW_LIMIT_FROM ? lengthText(used, limit) : enterSends ? "Enter to send, Shift+Enter for a new line" : "Ctrl+Enter to send")}
      </p>
    </form>
  );
}

/** While the agent works on a message: the next one waits, or goes to it at once. */
function TimingChoice({ name, when, onChange }: { name: string; when: MessageTiming; onChange: (when: MessageTiming) => void }) {
  const group = useId();
  const choices: readonly { value: MessageTiming; label: string; hint: string }[] = [
    { value: "queue", label: "Queue", hint: "Answered after the current work" },
    { value: "steer", label: "Send now", hint: "Read during the current work, if the agent can" },
  ];
  return (
    <fieldset className={css.timing}>
      <legend>
        <bdi>{name}</bdi> is working. Your next message:
      </legend>
      {choices.map(({ value, label, hint }) => (
        <label key={value} title={hint} className={when === value ? css.chosen : undefined}>
          <input type="radio" name={group} value={value} checked={when === value} onChange={() => onChange(value)} />
          {label}
        </label>
      ))}
    </fieldset>
  );
}

function lengthText(used: number, limit: number): string {
  if (used > limit) return `${sizeText(used - limit)} over the limit of ${sizeText(limit)}`;
  return `${sizeText(limit - used)} of ${sizeText(limit)} left`;
}
