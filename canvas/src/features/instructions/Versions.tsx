/** The versions of a template: what each one changed, and which one is active. */

import { useState } from "react";
import { useSession } from "../../core/app";
import { Button } from "../../ui/Button";
import { Time } from "../../ui/Time";
import { ActionProblem, useAction } from "../../ui/useAction";
import type { InstructionsApi } from "./api";
import { DiffView } from "./DiffView";
import css from "./Instructions.module.css";
import { diffParts, type Template, type Version } from "./model";
import { useRequest } from "../../core/api/useRequest";

const SHARES = [5, 10, 25, 50] as const;

interface Props {
  calls: InstructionsApi;
  template: Template;
  /** Changes with the template. */
  turn: string;
  disabled: boolean;
  onChanged: () => Promise<void>;
}

export function Versions({ calls, template, turn, disabled, onChanged }: Props) {
  const { value, problem } = useRequest(() => calls.versions(template.id), turn);
  if (value === null) return problem === null ? <p className={css.hint}>Loading versions…</p> : <p role="alert">{problem}</p>;
  return (
    <ul className={css.versions} aria-label={`Versions of ${template.id}`}>
      {value.map((version, at) => (
        <VersionRow key={version.version} calls={calls} template={template} version={version} before={value[at + 1]} disabled={disabled} onChanged={onChanged} />
      ))}
    </ul>
  );
}

interface RowProps extends Omit<Props, "turn"> {
  version: Version;
  before: Version | undefined;
}

function VersionRow({ calls, template, version, before, disabled, onChanged }: RowProps) {
  const [open, setOpen] = useState(false);
  const [percent, setPercent] = useState(10);
  const { identity } = useSession();
  const action = useAction();
  const number = version.version;
  const inForce = template.version === number;
  const tried = template.canary === number;
  const share = (part: number, done: string): void => action.run(() => calls.share(template.id, number, part), done, onChanged);
  return (
    <li className={css.version}>
      <p className={css.versionHead}>
        <strong>Version {number}</strong>
        {inForce && <span className={css.own}>active</span>}
        {tried && <span className={css.canary}>canary at {template.percent} %</span>}
        {version.builtIn && <span className={css.origin}>installed with Molecule</span>}
        {version.createdAt !== null && <Time at={version.createdAt} className={css.hint} />}
        {version.createdBy !== null && !version.builtIn && <span className={css.hint}>by {authorText(version.createdBy, identity.user.id)}</span>}
      </p>
      {version.note !== null && (
        <p>
          <bdi>{version.note}</bdi>
        </p>
      )}
      <div className={css.deeds}>
        {before !== undefined && (
          <Button aria-expanded={open} onClick={() => setOpen(!open)}>
            Changes in version {number}
          </Button>
        )}
        {!disabled && !inForce && (
          <Button disabled={action.busy} onClick={() => action.run(() => calls.restore(template.id, number), "Restored", onChanged)}>
            Restore version {number}
          </Button>
        )}
        {!disabled && tried && (
          <>
            <Button disabled={action.busy} onClick={() => share(0, "Canary ended")}>
              End canary
            </Button>
            <Button disabled={action.busy} onClick={() => share(100, "Activated")}>
              Activate
            </Button>
          </>
        )}
        {!disabled && !inForce && !tried && (
          <span className={css.trial}>
            <label>
              Messages for version {number}{" "}
              <select value={percent} onChange={(event) => setPercent(Number(event.target.value))}>
                {SHARES.map((part) => (
                  <option key={part} value={part}>
                    {part} %
                  </option>
                ))}
              </select>
            </label>
            <Button disabled={action.busy} onClick={() => share(percent, "Canary started")}>
              Start canary of version {number}
            </Button>
          </span>
        )}
      </div>
      <ActionProblem action={action} className={css.problem} />
      {open && before !== undefined && <DiffView diffs={diffParts(before.parts, version.parts)} none="No differences from the previous version." />}
    </li>
  );
}

/** Authors have the form kind:id. */
function authorText(author: string, own: string): string {
  const [kind, id] = author.split(":");
  if (id === own) return "you";
  return kind === "admin" ? "the admin" : "another owner";
}
