/** Browser notifications about new items of the inbox: only if enabled, only while the page is hidden, and only from one of
 * several tabs. What waited before the page was opened is not new; what arrived during an interruption is. */

import type { InboxItem } from "../../core/state/inboxItems";
import { showInvisible } from "../../core/text/invisible";
import { plainLine } from "../../core/text/plain";

const LOCK = "molecule.notify";
/** More become one notification. */
const MAX_SINGLE = 3;
/** Characters; browsers show fewer. */
const MAX_BODY = 200;
const NOTE_SECONDS = 0.18;
/** Two rising tones: no other sound of the page is like it. */
const NOTES = [660, 880] as const;

export interface NotificationSettings {
  notify: boolean;
  sound: boolean;
}

interface NotificationOptions {
  settings: () => NotificationSettings;
  /** Null: the whole inbox. */
  open: (item: InboxItem | null) => void;
  /** The browser grants permission but cannot show notifications. */
  onUnable: () => void;
}

export class Notifications {
  private readonly options: NotificationOptions;
  private known: ReadonlySet<string> | null = null;
  /** The lists behind most kinds were read: what is in them from now on is new. */
  private isComplete = false;
  private isLeader = false;
  private releaseLock: () => void = () => undefined;
  private readonly giveUp = new AbortController();

  constructor(parts: NotificationOptions) {
    this.options = parts;
  }

  /** The tab that holds the lock notifies; when it is closed, another one gets the lock. */
  start(): void {
    if (typeof navigator.locks === "undefined") return;
    const held = new Promise<void>((done) => (this.releaseLock = done));
    navigator.locks
      .request(LOCK, { signal: this.giveUp.signal }, () => {
        this.isLeader = true;
        return held;
      })
      .catch(() => undefined); // stopped before the lock was granted
  }

  stop(): void {
    this.isLeader = false;
    this.giveUp.abort();
    this.releaseLock();
  }

  /** Take the current items and notify about new ones. `isComplete`: all lists were read. */
  update(items: readonly InboxItem[], isComplete: boolean): void {
    const [known, wasComplete] = [this.known, this.isComplete];
    this.known = new Set(items.map(({ key }) => key));
    this.isComplete = isComplete;
    if (known === null) return;
    // Approvals come with the organisation itself.
    const fresh = items.filter(({ key, kind }) => !known.has(key) && (wasComplete || kind === "approval"));
    if (fresh.length > 0 && this.isLeader && document.visibilityState === "hidden") this.notify(fresh);
  }

  private notify(fresh: readonly InboxItem[]): void {
    const { notify, sound } = this.options.settings();
    if (sound) play();
    if (!notify || !canNotify()) return;
    try {
      this.showAll(fresh);
    } catch {
      // Chrome on Android has the class but throws: there only a service worker may show notifications.
      this.options.onUnable();
    }
  }

  private showAll(fresh: readonly InboxItem[]): void {
    // Many at once would cover the screen.
    if (fresh.length > MAX_SINGLE) return this.show(summaryText(fresh), fresh.slice(0, MAX_SINGLE).map(lineText).join("\n"), null);
    for (const each of fresh) this.show(titleText(each), bodyText(each), each);
  }

  private show(title: string, body: string, item: InboxItem | null): void {
    const note = new Notification(title, { body, tag: item?.key ?? LOCK });
    note.onclick = () => {
      window.focus();
      note.close();
      this.options.open(item);
    };
  }
}

function summaryText(items: readonly InboxItem[]): string {
  const isEach = (kind: InboxItem["kind"]): boolean => items.every((each) => each.kind === kind);
  return isEach("approval") ? `${items.length} requests need your approval` : `${items.length} things wait for you`;
}

function lineText(item: InboxItem): string {
  return item.kind === "approval" ? plainLine(showInvisible(item.approval.action)) : `${showInvisible(item.name)}: ${item.text}`;
}

function titleText(item: InboxItem): string {
  const name = showInvisible(item.name);
  if (item.kind === "approval") return `${name} needs your approval`;
  return item.kind === "question" ? `${name} asks you a question` : `${name}: ${item.text}`;
}

/** The beginning of what it is about. */
function bodyText(item: InboxItem): string {
  return plainLine(showInvisible(subjectText(item))).slice(0, MAX_BODY);
}

function subjectText(item: InboxItem): string {
  switch (item.kind) {
    case "approval":
      return item.approval.action;
    case "question":
      return item.question.text;
    case "draft":
    case "overdue":
      return item.message.summary;
    case "task":
      return item.trouble === "blocked" ? item.refused.task : item.delegation.task;
    case "undelivered":
      return item.trouble === "dead" ? item.deadLetter.summary : "";
    case "chain":
      return item.chain.summary;
    case "agent":
      return item.agent.tasks[0]?.task ?? "";
  }
}

export function canNotify(): boolean {
  return typeof Notification !== "undefined" && Notification.permission === "granted";
}

/** Ask for permission. Returns whether it is granted. */
export async function askToNotify(): Promise<boolean> {
  if (typeof Notification === "undefined" || typeof navigator.locks === "undefined") return false;
  return canNotify() || (await Notification.requestPermission()) === "granted";
}

function play(): void {
  if (typeof AudioContext === "undefined") return;
  const context = new AudioContext();
  NOTES.forEach((pitch, at) => {
    const [tone, loudness] = [context.createOscillator(), context.createGain()];
    tone.frequency.value = pitch;
    loudness.gain.value = 0.08;
    tone.connect(loudness).connect(context.destination);
    tone.start(context.currentTime + at * NOTE_SECONDS);
    tone.stop(context.currentTime + (at + 1) * NOTE_SECONDS);
    if (at === NOTES.length - 1) tone.onended = () => void context.close();
  });
}
