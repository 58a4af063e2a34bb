/** Lazily loaded: the messages tab of an agent, and the conversation of two agents. */

export { MessagesTab } from "./PeerList";
export { PeersView } from "./PeersView";
