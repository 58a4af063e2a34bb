/** The server's rendering of the edited text, character for character. */

import { useEffect, useMemo, useRef, useState, type ReactNode } from "react";
import { useData, useSession } from "../../core/app";
import { ApiError, errorText } from "../../core/api/api";
import { members } from "../../core/state/json";
import { plural } from "../../core/text/strings";
import { InstructionsApi } from "./api";
import css from "./Instructions.module.css";
import { FORMS, KINDS, findingOf, type Finding, type Parts, type Preview } from "./model";

/** Delay after the last key press before the server is asked. */
const PAUSE_MS = 300;

interface Props {
  templateId: string;
  runtime: string;
  parts: Parts;
  /** Called with the findings of each response. */
  onFindings: (marks: readonly Finding[]) => void;
}

export function PreviewPanel({ templateId, runtime, parts, onFindings }: Props) {
  const workspaces = useData((state) => state.workspaces);
  const agents = useMemo(() => [...workspaces.values()].sort((one, other) => one.name.localeCompare(other.name)), [workspaces]);
  const [chosen, setChosen] = useState<string | null>(null);
  const workspaceId = chosen ?? (agents.find((each) => each.runtime === runtime) ?? agents[0])?.id ?? null;
  const [kind, setKind] = useState<string>("canvas_user");
  const [form, setForm] = useState<string>("full");
  const { preview, problem, asking } = usePreview({ workspaceId, kind, form, templateId, parts }, onFindings);
  return (
    <section className={css.preview} aria-label="Preview">
      <h3>Preview</h3>
      {workspaceId === null ? (
        <p className={css.hint}>Connect an agent to see a preview.</p>
      ) : (
        <>
          <div className={css.choices}>
            <Select label="Agent" value={workspaceId} onChange={setChosen}>
              {agents.map(({ id, name }) => (
                <option key={id} value={id}>
                  {name}
                </option>
              ))}
            </Select>
            <Select label="Message kind" value={kind} onChange={setKind}>
              {KINDS.map((each) => (
                <option key={each}>{each}</option>
              ))}
            </Select>
            <Select label="Form" value={form} onChange={setForm}>
              {FORMS.map((each) => (
                <option key={each}>{each}</option>
              ))}
            </Select>
          </div>
          {preview !== null && (
            <>
              <pre className={`${css.rendered} ${problem === null ? "" : css.stale}`} tabIndex={0} role="region" aria-label="Rendered instructions" aria-busy={asking}>
                {preview.text}
              </pre>
              <p className={css.hint}>
                {preview.tokens !== null && <strong>{plural(preview.tokens, "token")}</strong>}
                {preview.replyVia && `, answers are sent with ${preview.replyVia}`}
              </p>
            </>
          )}
          <p role="status" className={problem === null ? "visually-hidden" : css.problem}>
            {problem === null ? (preview === null ? "" : `${plural(preview.tokens ?? 0, "token")} in ${form} form`) : `${problem}${preview === null ? "" : " The preview shows the last valid text."}`}
          </p>
        </>
      )}
    </section>
  );
}

function Select({ label, value, onChange, children }: { label: string; value: string; onChange: (value: string) => void; children: ReactNode }) {
  return (
    <label className={css.select}>
      <span>{label}</span>
      <select value={value} onChange={(event) => onChange(event.target.value)}>
        {children}
      </select>
    </label>
  );
}

interface PreviewInput {
  workspaceId: string | null;
  kind: string;
  form: string;
  templateId: string;
  parts: Parts;
}

/** Ask the server after a pause. The response to the latest request counts. */
function usePreview({ workspaceId, kind, form, templateId, parts }: PreviewInput, onFindings: Props["onFindings"]): { preview: Preview | null; problem: string | null; asking: boolean } {
  const { api, identity } = useSession();
  const [shown, setShown] = useState<{ preview: Preview | null; problem: string | null }>({ preview: null, problem: null });
  const [asking, setAsking] = useState(false);
  const turn = useRef(0);
  const reportFindings = useRef(onFindings);
  reportFindings.current = onFindings;
  useEffect(() => {
    if (workspaceId === null) return;
    turn.current += 1;
    const own = turn.current;
    setAsking(true);
    const timer = setTimeout(
      () => {
        new InstructionsApi(api, identity.org.id).preview({ workspaceId, kind, form, templateId, parts }).then(
          ({ preview, warnings }) => {
            if (own !== turn.current) return;
            setShown({ preview, problem: null });
            setAsking(false);
            reportFindings.current(warnings);
          },
          (error: unknown) => {
            if (own !== turn.current) return;
            setShown((before) => ({ ...before, problem: errorText(error) }));
            setAsking(false);
            reportFindings.current(findingsOf(error));
          },
        );
      },
      own === 1 ? 0 : PAUSE_MS,
    );
    return () => clearTimeout(timer);
  }, [api, identity, workspaceId, kind, form, templateId, parts]);
  return { ...shown, asking };
}

/** The findings of an error response; empty if it is about something else. */
export function findingsOf(error: unknown): Finding[] {
  if (!(error instanceof ApiError) || error.status !== 422 || members(error.body) === null) return [];
  return [findingOf(error.body, error.message)];
}
