/** One template: its texts with a preview, the difference to its base, its versions, its metrics. */

import { useCallback, useState, type ReactNode } from "react";
import { useApp } from "../../core/app";
import { Button, IconButton } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { Tabs } from "../../ui/Tabs";
import { plural } from "../../core/text/strings";
import { ActionProblem, useAction } from "../../ui/useAction";
import type { InstructionsApi } from "./api";
import { DiffView } from "./DiffView";
import { useDraft, useForgetDraft } from "./drafts";
import { Editor } from "./Editor";
import { MetricsTable } from "./MetricsTable";
import { Findings } from "./CodeField";
import css from "./Instructions.module.css";
import { diffParts, partLabel, rowText, type Finding, type Parts, type Row, type Template } from "./model";
import { findingsOf, PreviewPanel } from "./PreviewPanel";
import { TestPush } from "./TestPush";
import { useRequest } from "../../core/api/useRequest";
import { Versions } from "./Versions";

type Tab = "text" | "changes" | "versions" | "figures";

interface Props {
  calls: InstructionsApi;
  row: Row;
  /** Changes with the template. */
  turn: string;
  narrow: boolean;
  onChanged: () => Promise<void>;
}

export function TemplateView({ calls, row, turn, narrow, onChanged }: Props) {
  const { router } = useApp();
  const { value: template, problem, reread } = useRequest(() => calls.template(row.id), turn);
  const [tab, setTab] = useState<Tab>("text");
  const changed = async (): Promise<void> => {
    await Promise.all([reread(), onChanged()]);
  };
  return (
    <section className={css.template} aria-label={`Template ${row.id}`}>
      <header className={css.templateHead}>
        {narrow && <IconButton icon="back" label="Back to templates" onClick={() => router.go({ view: "instructions", templateId: null })} />}
        <div className={css.templateName}>
          <h2>{row.id}</h2>
          <p className={css.hint}>
            {rowText(row)}. Used by {plural(row.usedBy + row.defaultFor, "agent")}.
          </p>
        </div>
        {(row.edited || !row.builtIn) && <Remove calls={calls} row={row} onRemoved={onChanged} />}
      </header>
      {template === null ? (
        <p className={css.hint} role={problem === null ? undefined : "alert"}>
          {problem ?? "Loading template…"}
        </p>
      ) : (
        <Tabs
          label="Template"
          tabs={[
            { name: "text", label: "Text" },
            { name: "changes", label: "Changes" },
            { name: "versions", label: "Versions" },
            { name: "figures", label: "Metrics" },
          ]}
          current={tab}
          onChange={setTab}
        >
          <div className={css.panel}>
            {tab === "text" && <EditTab calls={calls} template={template} onSaved={changed} />}
            {tab === "changes" && <Changes calls={calls} template={template} turn={turn} />}
            {tab === "versions" && <Versions calls={calls} template={template} turn={`${turn} ${template.version} ${template.canary}`} disabled={false} onChanged={changed} />}
            {tab === "figures" && <MetricsTable calls={calls} templateId={template.id} turn={turn} />}
          </div>
        </Tabs>
      )}
    </section>
  );
}

function EditTab({ calls, template, onSaved }: { calls: InstructionsApi; template: Template; onSaved: () => Promise<void> }) {
  const draft = useDraft(template);
  const [marks, setFindings] = useState<readonly Finding[]>([]);
  const [note, setNote] = useState("");
  const [inForce, setInForce] = useState(true);
  const action = useAction();
  const hear = useCallback((found: readonly Finding[]) => setFindings(found), []);
  const save = (): void =>
    action.run(
      () =>
        calls.save(template.id, draft.parts, note.trim(), inForce).catch((error: unknown) => {
          setFindings(findingsOf(error));
          throw error;
        }),
      inForce ? "Saved and activated" : "Saved",
      async () => {
        draft.drop();
        setNote("");
        await onSaved();
      },
    );
  const elsewhere = marks.filter(({ where }) => where === null);
  const wrong = marks.flatMap(({ where, warning }) => (where === null || warning ? [] : [partLabel(where)]));
  return (
    <div className={css.writing}>
      <div className={css.texts}>
        {draft.dirty && draft.from !== template.version && (
          <p className={css.warning}>
            Version {template.version} was saved while you edited version {draft.from}. Saving your changes replaces it.
          </p>
        )}
        <Editor parts={draft.parts} base={template.base} extending={template.extends !== null} marks={marks} disabled={action.busy} onChange={draft.change} />
        <div className={css.saving} role="group" aria-label="Save">
          <Findings marks={elsewhere} />
          {wrong.length > 0 && <p className={css.problem}>Fix these parts: {[...new Set(wrong)].join(", ")}.</p>}
          <div className={css.deeds}>
            {draft.dirty && (
              <div className={css.noteRow}>
                <label className={css.note}>
                  Note <input value={note} autoComplete="off" placeholder="What changed and why" onChange={(event) => setNote(event.target.value)} />
                </label>
                <label className={css.check}>
                  <input type="checkbox" checked={inForce} onChange={(event) => setInForce(event.target.checked)} /> Activate now
                </label>
              </div>
            )}
            <Button kind="primary" disabled={!draft.dirty || action.busy} onClick={save}>
              Save new version
            </Button>
            <Button disabled={!draft.dirty || action.busy} onClick={draft.drop}>
              Discard changes
            </Button>
            <span className={`${css.hint} ${css.state}`}>{draft.dirty ? "Unsaved changes" : "No unsaved changes"}</span>
          </div>
          <ActionProblem action={action} className={css.problem} />
        </div>
      </div>
      <div className={css.beside}>
        <PreviewPanel templateId={template.id} runtime={template.runtime} parts={draft.parts} onFindings={hear} />
        <TestPush template={template} />
      </div>
    </div>
  );
}

interface ChangesProps {
  calls: InstructionsApi;
  template: Template;
  turn: string;
}

function Changes({ calls, template, turn }: ChangesProps): ReactNode {
  const draft = useDraft(template);
  const { base } = template;
  return (
    <div className={css.changes}>
      {draft.dirty && (
        <>
          <h3>Unsaved changes</h3>
          <DiffView diffs={diffParts(template.parts, draft.parts)} none="No differences." />
        </>
      )}
      {base !== null && (
        <>
          <h3>Differences from {base.name}</h3>
          <DiffView diffs={diffParts(overriddenParts(base.parts, draft.parts), draft.parts)} none="No differences." />
        </>
      )}
      {base === null && template.edited && <SinceMolecule calls={calls} template={template} turn={turn} parts={draft.parts} />}
      {base === null && !template.edited && !draft.dirty && <p className={css.hint}>Unchanged since install.</p>}
    </div>
  );
}

function SinceMolecule({ calls, template, turn, parts }: ChangesProps & { parts: Parts }): ReactNode {
  const { value } = useRequest(() => calls.versions(template.id), turn);
  const original = value?.find((version) => version.builtIn);
  if (original === undefined) return null;
  return (
    <>
      <h3>Differences from version {original.version}, installed with Molecule</h3>
      <DiffView diffs={diffParts(original.parts, parts)} none="No differences." />
    </>
  );
}

/** The texts of a base that a template overrides; all else stays, and tools and lines are only added. */
function overriddenParts(base: Parts, own: Parts): Parts {
  const instead = <T,>(said: T | null, inherited: T | null): T | null => (said === null ? null : inherited);
  return {
    reply_tool: instead(own.reply_tool, base.reply_tool),
    docs_url: instead(own.docs_url, base.docs_url),
    stdout_warning: instead(own.stdout_warning, base.stdout_warning),
    tools: [],
    lines: [],
    blocks: Object.fromEntries(Object.entries(base.blocks).filter(([name]) => name in own.blocks)),
  };
}

function Remove({ calls, row, onRemoved }: { calls: InstructionsApi; row: Row; onRemoved: () => Promise<void> }) {
  const [asking, setAsking] = useState(false);
  const action = useAction();
  const forget = useForgetDraft();
  const onDone = (): Promise<void> => {
    forget(row.id);
    return onRemoved();
  };
  return (
    <>
      <Button onClick={() => setAsking(true)}>Remove…</Button>
      {asking && (
        <Dialog label={`Remove ${row.id}?`} onClose={() => setAsking(false)}>
          <div className={css.form}>
            <p>{row.edited ? "The version installed with Molecule becomes active again." : "You can remove a template only if no agent uses it and no other template extends it."}</p>
            <ActionProblem action={action} className={css.problem} />
            <div className={css.deeds}>
              <Button kind="danger" disabled={action.busy} onClick={() => action.run(() => calls.remove(row.id), "Removed", onDone)}>
                Remove
              </Button>
              <Button onClick={() => setAsking(false)}>Cancel</Button>
            </div>
          </div>
        </Dialog>
      )}
    </>
  );
}
