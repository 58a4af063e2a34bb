/** Lazily loaded tabs of the agent panel. */

export { About } from "./About";
export { DelegationsTab } from "../delegations/DelegationsTab";
