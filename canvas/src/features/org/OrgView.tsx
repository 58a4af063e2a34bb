/** The organisation: outline and map side by side, and the panel of the selected agent. On phones only the outline. */

import { Suspense, useCallback, useEffect, useRef, useState, type KeyboardEvent, type MouseEvent, type ReactNode } from "react";
import { useApp, useData } from "../../core/app";
import { lazyPart } from "../../ui/lazyPart";
import { pointBelow, type Point } from "../../ui/point";
import { NARROW, useMedia } from "../../ui/useMedia";
import type { Place } from "../../core/router";
import type { Link } from "../../map/edges";
import { placeOfLink } from "../../map/follow";
import { ancestorsOf } from "../../core/state/tree";
import { Inspector } from "./Inspector";
import css from "./OrgView.module.css";
import { Outline } from "./Outline";
import { useOrg, type Org } from "./useOrg";

const FirstRun = lazyPart(() => import("../connect/FirstRun").then((found) => found.FirstRun));

// Wide pages open with the map: it is requested together with the data.
const loadMap = () => import("../../map/OrgMap").then((found) => found.OrgMap);
if (window.matchMedia?.(NARROW).matches === false) void loadMap().catch(() => undefined);
const OrgMap = lazyPart(loadMap);

const AgentMenu = lazyPart(() => import("./AgentMenu").then((found) => found.AgentMenu));
const MoveDialog = lazyPart(() => import("./MoveDialog").then((found) => found.MoveDialog));

type OrgPlace = Extract<Place, { view: "org" }>;

export function OrgView({ place }: { place: OrgPlace }) {
  const { router } = useApp();
  const narrow = useMedia(NARROW);
  const org = useOrg(place.filter);
  useExpandedPath(org, place.focus);
  const [dropped, setDropped] = useState<{ id: string; target: string } | null>(null);
  const opener = useRef<Element | null>(null);

  const latest = useRef(place);
  latest.current = place;
  const select = useCallback(
    (id: string | null) => {
      const now = latest.current;
      router.go({ ...now, focus: id, panel: id === null ? null : now.panel }, { replace: true });
    },
    [router],
  );
  const open = useCallback(
    (id: string) => {
      opener.current = document.activeElement;
      router.go({ ...latest.current, focus: id, panel: latest.current.panel ?? "chat" });
    },
    [router],
  );
  const follow = useCallback((link: Link) => router.go(placeOfLink(link, latest.current)), [router]);
  const close = useCallback(() => {
    router.go({ ...latest.current, panel: null });
    const back = opener.current;
    if (back instanceof HTMLElement && back.isConnected) back.focus();
    else document.querySelector<HTMLElement>("[role=treeitem][tabindex='0']")?.focus();
  }, [router]);

  const [menu, setMenu] = useState<{ id: string; at: Point } | null>(null);
  const closeMenu = useCallback(() => setMenu(null), []);
  const openMenu = (event: MouseEvent | KeyboardEvent): void => {
    const element = event.target instanceof Element ? event.target.closest<HTMLElement>("[data-id], [data-agent]") : null;
    const id = element?.dataset["id"] ?? element?.dataset["agent"];
    if (element === null || id === undefined) return;
    event.preventDefault();
    setMenu({ id, at: "clientX" in event ? { x: event.clientX, y: event.clientY } : pointBelow(element) });
  };

  if (org.orgNodes.size === 0) return <FirstRun />;
  const panel = place.panel !== null && place.focus !== null;
  return (
    <div
      className={`${css.org} ${panel ? css.open : ""}`}
      onContextMenu={openMenu}
      onKeyDown={(event) => (event.key === "ContextMenu" || (event.key === "F10" && event.shiftKey)) && openMenu(event)}
    >
      {!(narrow && panel) && (
        <Outline
          org={org}
          selected={place.focus}
          filter={place.filter}
          onFilter={(filter) => router.go({ ...place, filter }, { replace: true })}
          onSelect={select}
          onOpen={open}
        />
      )}
      {!narrow && (
        <div className={css.scene}>
          <Suspense fallback={<div data-map="loading" />}>
            <OrgMap org={org} selected={place.focus} onSelect={select} onOpen={open} onDrop={(id, target) => setDropped({ id, target })} onFollow={follow} />
          </Suspense>
          <Suspense>{dropped !== null && <Dropped {...dropped} onClose={() => setDropped(null)} />}</Suspense>
        </div>
      )}
      {place.panel !== null && place.focus !== null && (
        <Inspector
          key={place.focus}
          workspaceId={place.focus}
          tab={place.panel}
          onTab={(tab) => router.go({ ...place, panel: tab }, { replace: true })}
          onMenu={(button) => setMenu(menu === null && place.focus !== null ? { id: place.focus, at: pointBelow(button) } : null)}
          onClose={close}
        />
      )}
      <Suspense>
        {menu !== null && <AgentMenu key={menu.id} {...menu} folded={org.folded.has(menu.id)} onFold={org.fold} onClose={closeMenu} />}
      </Suspense>
    </div>
  );
}

function Dropped({ id, target, onClose }: { id: string; target: string; onClose: () => void }): ReactNode {
  const workspace = useData((state) => state.workspaces.get(id));
  return workspace === undefined ? null : <MoveDialog workspace={workspace} target={target} onClose={onClose} />;
}

/** Expand the teams around a newly selected agent, once. */
function useExpandedPath(org: Org, focus: string | null): void {
  const latest = useRef(org);
  latest.current = org;
  useEffect(() => {
    const { tree, folded, fold } = latest.current;
    if (focus === null) return;
    for (const above of ancestorsOf(tree, focus)) if (folded.has(above)) fold(above, false);
  }, [focus]);
}
