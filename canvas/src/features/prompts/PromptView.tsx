/** The system prompt of one agent on its own page. */

import { useApp, useData } from "../../core/app";
import { Avatar } from "../../ui/Avatar";
import { Button } from "../../ui/Button";
import { Link } from "../../ui/Link";
import { Notice } from "../../ui/Notice";
import { ORG } from "../../core/router";
import css from "./Prompt.module.css";
import { PromptPanel } from "./PromptPanel";

export function PromptView({ workspaceId }: { workspaceId: string }) {
  const { router } = useApp();
  const workspace = useData((state) => state.workspaces.get(workspaceId));
  if (workspace === undefined) {
    return (
      <Notice icon="search" title="Agent not found" actions={<Button onClick={() => router.go(ORG)}>Go to organisation</Button>}>
        It was removed, or the link belongs to another organisation.
      </Notice>
    );
  }
  return (
    <div className={css.page}>
      <header className={css.head}>
        <Avatar id={workspaceId} name={workspace.name} size="large" />
        <h2>
          Prompt of <bdi>{workspace.name}</bdi>
        </h2>
        <Link className={css.way} to={{ view: "org", focus: workspaceId, panel: "prompt", filter: "" }}>
          View in org
        </Link>
      </header>
      <PromptPanel workspaceId={workspaceId} />
    </div>
  );
}
