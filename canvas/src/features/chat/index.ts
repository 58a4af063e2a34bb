/** Lazily loaded: the list of chats, and the chat with one agent. Almost each visit needs them, and without a connection they
 * could not be loaded, so they are loaded first of all parts. */

import { lazyPart } from "../../ui/lazyPart";

export const ChatsView = lazyPart(() => import("./chatViews").then((found) => found.ChatsView));
export const Conversation = lazyPart(() => import("./chatViews").then((found) => found.Conversation));

export async function preloadChat(): Promise<void> {
  await Promise.allSettled([ChatsView.preload(), Conversation.preload()]);
}
