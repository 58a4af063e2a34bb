/** All that is shown of threads, in one part that is loaded when it is needed. */

export { ThreadsTab } from "./ThreadsTab";
export { ThreadView } from "./ThreadView";
