/** A delegation with its state, its tree and its timeline. Sub-tasks open in place. */

import { useLayoutEffect, useRef } from "react";
import { useApp, useData } from "../../core/app";
import { Button } from "../../ui/Button";
import { Link } from "../../ui/Link";
import { Notice } from "../../ui/Notice";
import page from "../../ui/Page.module.css";
import { ORG } from "../../core/router";
import type { Branch } from "./tree";
import { useDelegationDetail, useDelegationTree } from "./useDelegation";
import { NodeDetail } from "./NodeDetail";
import { DelegationTrees } from "./DelegationTrees";
import css from "./DelegationView.module.css";

export function DelegationView({ id, node }: { id: string; node: string | null }) {
  const { router } = useApp();
  const work = useDelegationTree(id, node);
  const own = useDelegationDetail(node);
  const shown = node === null || node === id ? work : own;
  useRememberedScroll(node ?? id);
  if (work.problem !== null) return <ReadProblem problem={work.problem} missing={work.missing} onRetry={work.retry} />;
  if (work.full === null) return <Notice icon="clock" title="Loading task…" />;
  const branch = work.path.at(-1);
  return (
    <div className={page.page}>
      <div className={page.inside}>
        <p>
          <Link to={{ view: "trace", id }} className={css.request}>Show the whole request</Link>
        </p>
        <Trail id={id} path={work.path} parentId={work.full.delegation.parent_id} rootId={work.full.delegation.root_id} />
        {shown.full !== null && <NodeDetail full={shown.full} />}
        {shown.full === null && shown.problem === null && <p className={css.quiet}>Loading…</p>}
        {shown.problem !== null && <ReadProblem problem={shown.problem} missing={shown.missing} onRetry={shown.retry} />}
        <DelegationTrees
          key={node ?? id}
          title="Sub-tasks"
          tree={branch === undefined ? work.tree : [branch, ...(node === null ? work.tree.filter((each) => each !== branch) : [])]}
          facts={shown.full?.timeline ?? []}
          onOpen={(child) => child !== (node ?? id) && router.go({ view: "delegation", id, node: child === id ? null : child })}
        />
      </div>
    </div>
  );
}

function ReadProblem({ problem, missing, onRetry }: { problem: string; missing: boolean; onRetry: () => void }) {
  const { router } = useApp();
  if (missing) {
    return (
      <Notice icon="search" title="Task not found" actions={<Button onClick={() => router.go(ORG)}>Go to the organisation</Button>}>
        It is too old to be stored, or the link belongs to another organisation.
      </Notice>
    );
  }
  return (
    <Notice icon="warning" title="Could not load task" actions={<Button onClick={onRetry}>Try again</Button>}>
      {problem}
    </Notice>
  );
}

/** Breadcrumbs: the parent, and the nodes above the selected one. */
function Trail({ id, path, parentId, rootId }: { id: string; path: readonly Branch[]; parentId: string | null; rootId: string }) {
  const workspaces = useData((state) => state.workspaces);
  if (parentId === null && path.length < 2) return null;
  const nameOf = ({ node }: Branch): string => workspaces.get(node.targetId ?? "")?.name ?? node.targetName ?? "Task";
  return (
    <nav aria-label="Breadcrumb" className={css.trail}>
      <ol>
        {parentId !== null && rootId !== parentId && (
          <li>
            <Link to={{ view: "delegation", id: rootId, node: null }}>Root task</Link>
          </li>
        )}
        {parentId !== null && (
          <li>
            <Link to={{ view: "delegation", id: parentId, node: null }}>Parent task</Link>
          </li>
        )}
        {path.map((branch, at) => {
          const last = at === path.length - 1;
          const label = <bdi>{nameOf(branch)}</bdi>;
          if (last) {
            return (
              <li key={branch.node.id} aria-current="page">
                {label}
              </li>
            );
          }
          return (
            <li key={branch.node.id}>
              <Link to={{ view: "delegation", id, node: at === 0 ? null : branch.node.id }}>{label}</Link>
            </li>
          );
        })}
      </ol>
    </nav>
  );
}

/** Each node keeps its scroll position. */
function useRememberedScroll(key: string): void {
  const places = useRef(new Map<string, number>());
  const current = useRef(key);
  useLayoutEffect(() => {
    const box = document.getElementById("view");
    if (box === null) return;
    const note = (): void => void places.current.set(current.current, box.scrollTop);
    box.addEventListener("scroll", note);
    return () => box.removeEventListener("scroll", note);
  }, []);
  useLayoutEffect(() => {
    if (current.current === key) return;
    current.current = key;
    const box = document.getElementById("view");
    if (box !== null) box.scrollTop = places.current.get(key) ?? 0;
  }, [key]);
}
