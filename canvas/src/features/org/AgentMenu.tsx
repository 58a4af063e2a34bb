/** The menu of an agent: what the person's role allows. Opened on a card, in the outline and in the panel. */

import { useState, type ReactNode } from "react";
import { useApp, useData, useSession } from "../../core/app";
import { errorText } from "../../core/api/api";
import { statusOf } from "../../core/state/agentStatus";
import type { Workspace } from "../../core/state/model";
import { childrenOf, treeOf } from "../../core/state/tree";
import { announce } from "../../ui/Announcer";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { Menu, type MenuItem } from "../../ui/Menu";
import type { Point } from "../../ui/point";
import css from "./AgentActions.module.css";
import { AddBelowDialog } from "./AddBelowDialog";
import { EditDialog } from "./EditDialog";
import { MoveDialog } from "./MoveDialog";
import { RemoveDialog } from "./RemoveDialog";
import { TeamDialog } from "./TeamDialog";

type Opened = "edit" | "add" | "team" | "move" | "remove" | "collapse";

interface Props {
  id: string;
  at: Point;
  /** Whether its team is collapsed on the map. */
  folded: boolean;
  onFold: (id: string, folded: boolean) => void;
  onClose: () => void;
}

export function AgentMenu({ id, at, folded, onFold, onClose }: Props) {
  const { router } = useApp();
  const { canSend } = useSession();
  const workspace = useData((state) => state.workspaces.get(id));
  const hasTeam = useData((state) => childrenOf(treeOf(state.orgNodes), id).length > 0);
  const lifecycle = useLifecycle(workspace);
  const [opened, setOpened] = useState<Opened | null>(null);
  const [menu, setMenu] = useState(true);
  if (workspace === undefined) return null;
  if (lifecycle.problem !== null) return <Problem name={workspace.name} text={lifecycle.problem} onClose={onClose} />;
  if (opened !== null) return <OpenedDialog workspace={workspace} opened={opened} onClose={onClose} />;
  if (!menu) return null;

  // A dialog, or the error of a request, takes the place of the menu.
  let stays = false;
  const open = (what: Opened): (() => void) => () => {
    stays = true;
    setOpened(what);
  };
  const close = (): void => {
    queueMicrotask(() => (stays ? setMenu(false) : onClose()));
  };
  const items: MenuItem[] = [
    { label: "Open chat", run: () => router.go({ view: "org", focus: id, panel: "chat", filter: "" }) },
    { label: "About", run: () => router.go({ view: "org", focus: id, panel: "about", filter: "" }) },
  ];
  if (hasTeam) items.push({ label: folded ? "Expand team" : "Collapse team", run: () => onFold(id, !folded) });
  if (canSend) {
    items.push(
      { label: "Edit…", begins: true, run: open("edit") },
      { label: "Add agent below…", run: open("add") },
      { label: "Create team below…", run: open("team") },
      { label: "Move…", run: open("move") },
      {
        label: lifecycle.isAside ? "Resume" : "Pause",
        run: () => {
          stays = true;
          void lifecycle.toggle().then((done) => done && onClose());
        },
      },
    );
    if (hasTeam) items.push({ label: "Remove team…", begins: true, danger: true, run: open("collapse") });
    items.push({ label: "Remove…", begins: !hasTeam, danger: true, run: open("remove") });
  }
  return <Menu label={`Actions for ${workspace.name}`} at={at} items={items} onClose={close} />;
}

function OpenedDialog({ workspace, opened, onClose }: { workspace: Workspace; opened: Opened; onClose: () => void }): ReactNode {
  switch (opened) {
    case "edit":
      return <EditDialog workspace={workspace} onClose={onClose} />;
    case "add":
      return <AddBelowDialog parent={workspace} onClose={onClose} />;
    case "team":
      return <TeamDialog parent={workspace} onClose={onClose} />;
    case "move":
      return <MoveDialog workspace={workspace} onClose={onClose} />;
    case "remove":
    case "collapse":
      return <RemoveDialog workspace={workspace} whole={opened === "remove"} onClose={onClose} />;
  }
}

function Problem({ name, text, onClose }: { name: string; text: string; onClose: () => void }) {
  return (
    <Dialog label={`Could not change ${name}`} onClose={onClose}>
      <div className={css.dialog}>
        <p role="alert">{text}</p>
        <div className={css.buttons}>
          <Button onClick={onClose}>Close</Button>
        </div>
      </div>
    </Dialog>
  );
}

interface Lifecycle {
  isAside: boolean;
  problem: string | null;
  /** Pause or resume. Returns whether it succeeded. */
  toggle: () => Promise<boolean>;
}

function useLifecycle(workspace: Workspace | undefined): Lifecycle {
  const { api } = useSession();
  const [problem, setProblem] = useState<string | null>(null);
  const isAside = workspace !== undefined && ["paused", "hibernated"].includes(statusOf(workspace));
  const toggle = async (): Promise<boolean> => {
    if (workspace === undefined) return true;
    try {
      await api.putAside(workspace.id, isAside ? "resume" : "pause");
      announce(isAside ? "Resumed" : "Paused");
      return true;
    } catch (error) {
      setProblem(errorText(error));
      return false;
    }
  };
  return { isAside, problem, toggle };
}
