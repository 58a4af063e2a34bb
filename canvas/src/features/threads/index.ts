/** The views of threads, as one lazily loaded part. */

export { ThreadsTab } from "./ThreadsTab";
export { ThreadView } from "./ThreadView";
