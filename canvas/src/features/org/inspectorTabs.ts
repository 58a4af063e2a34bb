/** What the panel of an agent holds besides its chat. */

export { About } from "./About";
export { DelegationsTab } from "../delegations/DelegationsTab";
