/** The name of the organisation, which owners can change. */

import { useId, useState, type FormEvent } from "react";
import { useData, useSession } from "../../core/app";
import { Button } from "../../ui/Button";
import { ActionProblem, useAction } from "../../ui/useAction";
import group from "../../ui/SettingsGroup.module.css";
import css from "./SettingsView.module.css";

export function OrgName() {
  const { api, identity } = useSession();
  const { org, limits } = useData((state) => state);
  const [typed, setTyped] = useState<string | null>(null);
  const action = useAction();
  const id = useId();
  if (identity.user.role !== "owner") return null;
  const name = (typed ?? org.name).trim();
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    action.run(() => api.renameOrg(identity.org.id, name), "Saved", () => setTyped(null));
  };
  return (
    <section className={group.group} aria-labelledby={`${id}title`}>
      <h3 id={`${id}title`}>Organisation</h3>
      <form className={css.org} onSubmit={submit}>
        <label htmlFor={id}>Name</label>
        <input id={id} value={typed ?? org.name} maxLength={limits.name_length} required autoComplete="off" onChange={(event) => setTyped(event.target.value)} />
        <Button type="submit" disabled={name === "" || name === org.name || action.busy}>
          Rename
        </Button>
      </form>
      <ActionProblem action={action} className={css.problem} />
    </section>
  );
}
