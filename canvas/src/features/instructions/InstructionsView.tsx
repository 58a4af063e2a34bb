/** Instructions sent to agents with their messages: the list of templates, and the open one. Loaded on demand. */

import { useMemo, useState } from "react";
import { useApp, useThrottledData, useSession } from "../../core/app";
import { Button } from "../../ui/Button";
import { Link } from "../../ui/Link";
import { Notice } from "../../ui/Notice";
import { NARROW, useMedia } from "../../ui/useMedia";
import { useStored } from "../../core/store/store";
import { InstructionsApi } from "./api";
import { useForgetRemoved } from "./drafts";
import { summaryText } from "./metrics";
import css from "./Instructions.module.css";
import { rowText, type Row } from "./model";
import { NewTemplate } from "./NewTemplate";
import { TemplateView } from "./TemplateView";
import { useRequest } from "../../core/api/useRequest";

export default function InstructionsView({ templateId }: { templateId: string | null }) {
  const session = useSession();
  const { router } = useApp();
  const narrow = useMedia(NARROW);
  const changes = `${useStored(session.templateChanges)} ${useAssigned()}`;
  const calls = useMemo(() => new InstructionsApi(session.api, session.identity.org.id), [session]);
  const { value: rows, problem, reread } = useRequest(() => calls.templates(), changes);
  useForgetRemoved(rows);
  const [making, setMaking] = useState(false);
  if (rows === null) {
    if (problem === null) return <Notice icon="clock" title="Loading instructions…" />;
    return (
      <Notice icon="warning" title="Could not load instructions" actions={<Button onClick={() => void reread()}>Try again</Button>}>
        {problem}
      </Notice>
    );
  }
  const open = rows.find((each) => each.id === templateId) ?? null;
  return (
    <div className={css.page}>
      {!(narrow && templateId !== null) && (
        <section className={css.side} aria-label="Templates">
          <h2>Instructions</h2>
          <p className={css.hint}>Instructions are sent to agents with each message and explain how to answer.</p>
          <ul className={css.rows}>
            {rows.map((row) => (
              <li key={row.id}>
                <Entry calls={calls} row={row} turn={changes} current={row.id === templateId} />
              </li>
            ))}
          </ul>
          <div>
            <Button icon="plus" onClick={() => setMaking(true)}>
              New template
            </Button>
          </div>
        </section>
      )}
      {making && (
        <NewTemplate
          calls={calls}
          rows={rows}
          onClose={() => setMaking(false)}
          onMade={async (id) => {
            setMaking(false);
            await reread();
            router.go({ view: "instructions", templateId: id });
          }}
        />
      )}
      {open !== null ? (
        <TemplateView key={open.id} calls={calls} row={open} turn={changes} narrow={narrow} onChanged={reread} />
      ) : templateId !== null ? (
        <Notice icon="search" title="Template not found" actions={<Button onClick={() => router.go({ view: "instructions", templateId: null })}>Show all templates</Button>}>
          It was removed, or the link belongs to another organisation.
        </Notice>
      ) : (
        !narrow && (
          <Notice icon="book" title="No template selected">
            Select a template on the left to view or edit it.
          </Notice>
        )
      )}
    </div>
  );
}

/** The template of each workspace as one text: when it changes, the usage counts are read again. */
function useAssigned(): string {
  const workspaces = useThrottledData((state) => state.workspaces);
  return useMemo(() => {
    const chosen = [...workspaces.values()].filter((each) => each.instruction_template_id !== null);
    return chosen.map((each) => `${each.id} ${each.instruction_template_id}`).join();
  }, [workspaces]);
}

function Entry({ calls, row, turn, current }: { calls: InstructionsApi; row: Row; turn: string; current: boolean }) {
  const { value } = useRequest(() => calls.figures(row.id), turn);
  return (
    <Link className={css.entry} to={{ view: "instructions", templateId: row.id }} aria-current={current ? "page" : undefined}>
      <span className={css.entryName}>{row.id}</span>
      <span className={css.entryFacts}>{rowText(row)}</span>
      <span className={css.entryFacts}>{value === null ? "\u00a0" : summaryText(value)}</span>
    </Link>
  );
}
