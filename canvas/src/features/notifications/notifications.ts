/** Browser notifications about pending approvals: only if enabled, only while the page is hidden, and only from one of
 * several tabs. What was pending before the page was opened is not new; what arrived during an interruption is. */

import { approvalLists, type Approval, type Approvals } from "../../core/state/approvals";
import { showInvisible } from "../../core/text/invisible";
import { preview } from "../../core/text/strings";

const LOCK = "molecule.notify";
/** More become one notification. */
const MAX_SINGLE = 3;
const NOTE_SECONDS = 0.18;
/** Two rising tones: no other sound of the page is like it. */
const NOTES = [660, 880] as const;

export interface NotificationSettings {
  notify: boolean;
  sound: boolean;
}

interface NotificationOptions {
  settings: () => NotificationSettings;
  open: (approval: Approval | null) => void;
  /** The browser grants permission but cannot show notifications. */
  onUnable: () => void;
}

export class Notifications {
  private readonly options: NotificationOptions;
  private last: Approvals | null = null;
  private known: ReadonlySet<string> | null = null;
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

  /** Takes the current approvals and notifies about new ones. */
  update(approvals: Approvals): void {
    if (approvals === this.last) return;
    this.last = approvals;
    const { waiting } = approvalLists(approvals);
    const known = this.known;
    this.known = new Set(waiting.map(({ id }) => id));
    if (known === null) return;
    const fresh = waiting.filter(({ id }) => !known.has(id));
    if (fresh.length > 0 && this.isLeader && document.visibilityState === "hidden") this.notify(fresh);
  }

  private notify(fresh: readonly Approval[]): void {
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

  private showAll(fresh: readonly Approval[]): void {
    // Many at once would cover the screen.
    if (fresh.length > MAX_SINGLE) return this.show(`${fresh.length} requests need your approval`, fresh.slice(0, MAX_SINGLE).map(({ action }) => preview(showInvisible(action))).join("\n"), null);
    for (const each of fresh) this.show(`${showInvisible(each.requesterName)} needs your approval`, preview(showInvisible(each.action)), each);
  }

  private show(title: string, body: string, approval: Approval | null): void {
    const note = new Notification(title, { body, tag: approval?.id ?? LOCK });
    note.onclick = () => {
      window.focus();
      note.close();
      this.options.open(approval);
    };
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
