/** What `index` loads together. */

export { ChatsView } from "./ChatsView";
export { Conversation } from "./Conversation";
