/** Where the things are that events are about. Pure. */

import { approvalPlace, type Place } from "../../core/router";
import { text } from "../../core/state/json";
import type { LoggedEvent } from "../../core/wire";

export interface EventLink {
  to: Place;
  label: string;
}

/** The item that an event is about; null if it is about nothing with a place of its own. */
export function itemLink(event: LoggedEvent): EventLink | null {
  const { workspace_id: workspaceId, entity, payload } = event;
  switch (entity.kind) {
    case "delegation":
      return { to: { view: "delegation", id: entity.id, node: null }, label: "Open delegation" };
    case "approval": {
      const requester = text(payload, "workspace_id") ?? workspaceId;
      return { to: approvalPlace({ id: entity.id, workspaceId: requester }, "all"), label: "Open request" };
    }
    case "thread":
      return { to: { view: "thread", id: entity.id, tab: "said" }, label: "Open thread" };
    case "activity":
      return { to: messagePlace(event), label: text(payload, "kind") === "delegation" ? "Open delegation" : "Open message" };
    case "message":
      return { to: { view: "chats", workspaceId, messageId: entity.id }, label: "Open message" };
    case "prompt":
      return { to: { view: "prompt", workspaceId }, label: "Open prompt" };
    case "template":
      return { to: { view: "instructions", templateId: entity.id }, label: "Open instructions" };
    case "refusal":
      return { to: { view: "org", focus: workspaceId, panel: "work", filter: "" }, label: "Open work of the agent" };
    default:
      return workspaceId === "" ? null : { to: { view: "org", focus: workspaceId, panel: "about", filter: "" }, label: "Open agent" };
  }
}

function messagePlace({ event, workspace_id: workspaceId, entity, payload }: LoggedEvent): Place {
  const [kind, source, target] = ["kind", "source_id", "target_id"].map((name) => text(payload, name));
  if (kind === "delegation") return { view: "delegation", id: entity.id, node: null };
  const peerId = source && source !== workspaceId ? source : target && target !== workspaceId ? target : null;
  const isBetweenAgents = event === "ACTIVITY_LOGGED" && peerId;
  return isBetweenAgents ? { view: "peers", workspaceId, peerId, messageId: entity.id } : { view: "chats", workspaceId, messageId: entity.id };
}

/** The whole request that a message or delegation belongs to. */
export function traceLink({ entity }: LoggedEvent): EventLink | null {
  if (!["activity", "message", "delegation"].includes(entity.kind)) return null;
  return { to: { view: "trace", id: entity.id }, label: "Open trace" };
}
