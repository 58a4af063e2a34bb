/** The address of the page holds everything that decides which view is shown. */

import { LISTS, type ListName } from "./state/approvals";
import { INBOX_KINDS, type InboxKind } from "./state/inboxKinds";
import { createStore, type Store } from "./store/store";

const ROOT = "/app";

/** Start of the paths of this tab. With several logins they name the organisation, so that reloaded, copied and new tabs
 * show the same one. */
let base = ROOT;

/** Returns whether the paths change. */
export function nameOrgInPaths(orgId: string | null): boolean {
  const before = base;
  base = orgId === null ? ROOT : `${ROOT}/o/${encodeURIComponent(orgId)}`;
  return base !== before;
}

/** The first page of an organisation. */
export function pathOfOrg(orgId: string): string {
  return `${ROOT}/o/${encodeURIComponent(orgId)}/org`;
}

/** The organisation that a path names. */
export function orgOfPath(path: string): string | null {
  const [marker, orgId] = path.slice(ROOT.length).split("/").filter(Boolean).map(decode);
  return marker === "o" ? (orgId ?? null) : null;
}

/** Tabs of the agent panel in the organisation view. */
export type Panel = "chat" | "messages" | "work" | "threads" | "prompt" | "about";

/** Tabs of the thread view. */
export type ThreadTab = "said" | "tree" | "sight" | "base";

/** Lists of the view of all work. */
export type WorkList = "open" | "failed" | "completed" | "all";

/** What the rows of the view of usage are sums of. */
export type UsageGrouping = "agent" | "team" | "model" | "day" | "request";

/** Filters of the activity by their names in the address, and the number of the open event. */
export type ActivityFilters = Readonly<Record<string, string>>;

export type Place =
  | { view: "org"; focus: string | null; panel: Panel | null; filter: string }
  | { view: "chats"; workspaceId: string | null; messageId: string | null }
  /** What two agents wrote to each other, as part of the chats. */
  | { view: "peers"; workspaceId: string; peerId: string; messageId: string | null }
  /** `node`: the selected delegation of the tree. */
  | { view: "delegation"; id: string; node: string | null }
  | { view: "work"; list: WorkList }
  /** `id`: of any message or delegation of the request. */
  | { view: "trace"; id: string }
  | InboxPlace
  | { view: "prompt"; workspaceId: string }
  | { view: "thread"; id: string; tab: ThreadTab }
  | { view: "activity"; filters: ActivityFilters }
  | { view: "usage"; by: UsageGrouping }
  | { view: "schedules" }
  | { view: "problems" }
  | { view: "instructions"; templateId: string | null }
  | { view: "connect" }
  | { view: "settings" }
  | { view: "unknown"; path: string };

/** `kind`: null for all kinds; `list`: of approvals; `open`: the selected approval, and the workspace that requested it;
 * `item`: the key of another item that is shown. */
export interface InboxPlace {
  view: "inbox";
  kind: InboxKind | null;
  list: ListName;
  open: { id: string; workspaceId: string } | null;
  item: string | null;
}

export interface Router {
  place: Store<Place>;
  /** Write the address of the current place again, after `nameOrgInPaths`. */
  rename(): void;
  go(to: Place, options?: { replace?: boolean }): void;
  stop(): void;
}

export const INBOX: InboxPlace = { view: "inbox", kind: null, list: "waiting", open: null, item: null };
export const ORG: Place = { view: "org", focus: null, panel: null, filter: "" };

/** Whether a chat or the list of chats is shown. */
export function showsChat(place: Place): boolean {
  return place.view === "chats" || (place.view === "org" && place.panel === "chat");
}

export function parsePlace(path: string, search: string): Place {
  const parts = path.slice(ROOT.length).split("/").filter(Boolean).map(decode);
  const [view = "", id] = parts[0] === "o" ? parts.slice(2) : parts;
  const query = new URLSearchParams(search);
  switch (view) {
    case "":
    case "org":
      return orgPlace(query);
    case "chat": {
      const peerId = query.get("peer");
      if (id !== undefined && peerId) return { view: "peers", workspaceId: id, peerId, messageId: query.get("m") };
      return { view: "chats", workspaceId: id ?? null, messageId: query.get("m") };
    }
    case "delegations":
      return id === undefined ? { view: "unknown", path } : { view: "delegation", id, node: query.get("node") };
    case "work":
      return { view: "work", list: WORK_LIST_NAMES.find((each) => each === query.get("state")) ?? "open" };
    case "trace":
      return id === undefined ? { view: "unknown", path } : { view: "trace", id };
    case "usage":
      return { view: "usage", by: USAGE_GROUPINGS.find((each) => each === query.get("by")) ?? "agent" };
    case "activity":
      return { view: "activity", filters: Object.fromEntries([...query].filter(([, value]) => value)) };
    case "inbox":
      return inboxPlace(id, query);
    case "prompt":
      return id === undefined ? { view: "unknown", path } : { view: "prompt", workspaceId: id };
    case "threads":
      return id === undefined ? { view: "unknown", path } : { view: "thread", id, tab: THREAD_TABS.find((each) => each === query.get("show")) ?? "said" };
    case "instructions":
      return { view: "instructions", templateId: id ?? null };
    case "schedules":
    case "problems":
    case "connect":
    case "settings":
      return { view };
    default:
      return { view: "unknown", path };
  }
}

/** The approval among approvals. */
export function approvalPlace({ id, workspaceId }: { id: string; workspaceId: string }, list: ListName): InboxPlace {
  return { ...INBOX, kind: "approval", list, open: { id, workspaceId } };
}

/** A kind from a newer version opens all kinds. */
function inboxPlace(id: string | undefined, query: URLSearchParams): InboxPlace {
  const state = LISTS.find((each) => each === query.get("state"));
  const kind = INBOX_KINDS.find((each) => each === query.get("kind")) ?? (state === undefined ? null : "approval");
  const workspaceId = query.get("of");
  const open = id === undefined || workspaceId === null ? null : { id, workspaceId };
  return { ...INBOX, kind, list: state ?? "waiting", open, item: query.get("item") };
}

export const USAGE_GROUPINGS: readonly UsageGrouping[] = ["agent", "team", "model", "day", "request"];
const WORK_LIST_NAMES: readonly WorkList[] = ["open", "failed", "completed", "all"];
const THREAD_TABS: readonly ThreadTab[] = ["said", "tree", "sight", "base"];
const PANELS: readonly string[] = ["chat", "messages", "work", "threads", "prompt", "about"] satisfies Panel[];

function orgPlace(query: URLSearchParams): Place {
  const panel = query.get("panel");
  const focus = query.get("focus");
  const open = focus !== null && PANELS.includes(panel ?? "") ? (panel as Panel) : null;
  return { view: "org", focus, panel: open, filter: query.get("q") ?? "" };
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function hrefOf(place: Place): string {
  switch (place.view) {
    case "org":
      return `${base}/org${search({ focus: place.focus, panel: place.panel, q: place.filter })}`;
    case "chats": {
      const id = place.workspaceId === null ? "" : `/${encodeURIComponent(place.workspaceId)}`;
      return `${base}/chat${id}${search({ m: place.messageId })}`;
    }
    case "peers":
      return `${base}/chat/${encodeURIComponent(place.workspaceId)}${search({ peer: place.peerId, m: place.messageId })}`;
    case "delegation":
      return `${base}/delegations/${encodeURIComponent(place.id)}${search({ node: place.node })}`;
    case "work":
      return `${base}/work${search({ state: place.list === "open" ? null : place.list })}`;
    case "trace":
      return `${base}/trace/${encodeURIComponent(place.id)}`;
    case "usage":
      return `${base}/usage${search({ by: place.by === "agent" ? null : place.by })}`;
    case "activity":
      return `${base}/activity${search(place.filters)}`;
    case "inbox": {
      const id = place.open === null ? "" : `/${encodeURIComponent(place.open.id)}`;
      return `${base}/inbox${id}${search({ kind: place.kind, state: place.kind === "approval" ? place.list : null, of: place.open?.workspaceId ?? null, item: place.item })}`;
    }
    case "prompt":
      return `${base}/prompt/${encodeURIComponent(place.workspaceId)}`;
    case "thread":
      return `${base}/threads/${encodeURIComponent(place.id)}${search({ show: place.tab === "said" ? null : place.tab })}`;
    case "instructions":
      return `${base}/instructions${place.templateId === null ? "" : `/${encodeURIComponent(place.templateId)}`}`;
    case "unknown":
      return place.path;
    default:
      return `${base}/${place.view}`;
  }
}

function search(members: Readonly<Record<string, string | null>>): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(members)) if (value) query.set(name, value);
  const text = query.toString();
  return text === "" ? "" : `?${text}`;
}

export function browserRouter(): Router {
  const read = (): Place => parsePlace(location.pathname, location.search);
  const place = createStore(read());
  const follow = (): void => place.set(read());
  window.addEventListener("popstate", follow);
  return {
    place,
    rename: () => {
      const now = place.get();
      if (now.view === "unknown" || hrefOf(now) === location.pathname + location.search) return;
      history.replaceState(history.state, "", hrefOf(now) + location.hash);
      place.set({ ...now }); // links are shown with the new paths
    },
    go: (to, options) => {
      const href = hrefOf(to);
      if (href === location.pathname + location.search) return;
      if (options?.replace) history.replaceState(null, "", href);
      else history.pushState(null, "", href);
      place.set(to);
    },
    stop: () => window.removeEventListener("popstate", follow),
  };
}
