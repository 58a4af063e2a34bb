/** Named filters of this browser as links, and the form that names the present ones. */

import { useId, useState, type FormEvent } from "react";
import { useSession } from "../../core/app";
import type { ActivityFilters } from "../../core/router";
import { MAX_NAME, MAX_SAVED } from "../../core/session/savedFilters";
import { useStored } from "../../core/store/store";
import { announce } from "../../ui/Announcer";
import { Button, IconButton } from "../../ui/Button";
import { Link } from "../../ui/Link";
import { withoutOpen } from "./filters";
import css from "./Activity.module.css";

export function SavedFilterBar({ filters }: { filters: ActivityFilters }) {
  const { savedFilters } = useSession();
  const saved = useStored(savedFilters);
  const own = keyOf(filters);
  const current = saved.find((each) => keyOf(each.filters) === own)?.name ?? null;
  if (saved.length === 0 && own === "[]") return null;
  return (
    <div className={css.saved} role="group" aria-label="Saved filters">
      {saved.map(({ name, filters: each }) => (
        <span key={name} className={css.savedOne}>
          <Link to={{ view: "activity", filters: withoutOpen(each) }} className={css.savedLink} aria-current={name === current ? "true" : undefined}>
            <bdi>{name}</bdi>
          </Link>
          <IconButton icon="close" label={`Delete saved filters ${name}`} onClick={() => savedFilters.remove(name)} />
        </span>
      ))}
      {current === null && own !== "[]" && <SaveForm key={own} filters={filters} />}
    </div>
  );
}

/** The same for the same filters in another order. */
function keyOf(filters: ActivityFilters): string {
  return JSON.stringify(Object.entries(withoutOpen(filters)).sort());
}

function SaveForm({ filters }: { filters: ActivityFilters }) {
  const { savedFilters } = useSession();
  const [name, setName] = useState<string | null>(null);
  const [isFull, setFull] = useState(false);
  const id = useId();
  if (name === null) return <Button kind="quiet" onClick={() => setName("")}>Save filters…</Button>;
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    const saved = savedFilters.save({ name: name.trim(), filters: withoutOpen(filters) });
    setFull(!saved);
    if (saved) announce("Filters saved");
  };
  return (
    <form className={css.saveForm} onSubmit={submit} onKeyDown={(event) => event.key === "Escape" && setName(null)}>
      <label htmlFor={id}>Name</label>
      <input id={id} className={css.select} value={name} maxLength={MAX_NAME} autoComplete="off" autoFocus onChange={(event) => setName(event.target.value)} />
      <Button type="submit" disabled={name.trim() === ""}>
        Save
      </Button>
      <Button kind="quiet" onClick={() => setName(null)}>
        Cancel
      </Button>
      {isFull && <p role="alert">{`${MAX_SAVED} filters are saved already. Delete one first.`}</p>}
    </form>
  );
}
