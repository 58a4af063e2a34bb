/** Members and invited people of the organisation. Owners change them here. */

import { useEffect, useId, useState, type FormEvent } from "react";
import { useData, useSession } from "../../core/app";
import { errorText, type Person } from "../../core/api/api";
import { Button } from "../../ui/Button";
import { ShellCommand } from "../../ui/ShellCommand";
import { useStored } from "../../core/store/store";
import group from "../../ui/SettingsGroup.module.css";
import { ActionProblem, useAction } from "../../ui/useAction";
import css from "./People.module.css";

const ROLES = ["viewer", "operator", "owner"] as const;

interface Lists {
  people: readonly Person[];
  invited: readonly Person[];
}

export function People() {
  const { lists, problem, reread } = useLists();
  const { identity } = useSession();
  const owner = identity.user.role === "owner";
  if (lists === null) return problem === null ? null : <p role="alert">{problem}</p>;
  return (
    <section className={group.group} aria-labelledby="settings-people">
      <h3 id="settings-people">People</h3>
      <ul className={css.people} aria-label="People of the organisation">
        {lists.people.map((person) => (
          <Member key={person.id} person={person} owner={owner} onChanged={reread} />
        ))}
      </ul>
      {owner && lists.invited.length > 0 && (
        <>
          <h4>Invited</h4>
          <ul className={css.people} aria-label="Invited">
            {lists.invited.map((person) => (
              <Invited key={person.id} person={person} onChanged={reread} />
            ))}
          </ul>
        </>
      )}
      {owner ? <Invite onMade={reread} /> : <p className={group.hint}>Only owners can invite people and change roles.</p>}
    </section>
  );
}

/** Both lists, read again when members change. */
function useLists(): { lists: Lists | null; problem: string | null; reread: () => Promise<void> } {
  const session = useSession();
  const changes = useStored(session.peopleChanges);
  const [lists, setLists] = useState<Lists | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const { api, identity } = session;
  const reread = async (): Promise<void> => {
    try {
      const [people, invited] = await Promise.all([
        api.people(identity.org.id),
        identity.user.role === "owner" ? api.invitations(identity.org.id) : [],
      ]);
      setLists({ people, invited });
    } catch (error) {
      setProblem(errorText(error));
    }
  };
  useEffect(() => void reread(), [changes]);
  return { lists, problem, reread };
}

function Member({ person, owner, onChanged }: { person: Person; owner: boolean; onChanged: () => Promise<void> }) {
  const { api, identity } = useSession();
  const [sure, setSure] = useState(false);
  const action = useAction();
  const self = person.id === identity.user.id;
  const change = (role: string): void => action.run(() => api.changePerson(identity.org.id, person.id, role), "Saved", onChanged);
  return (
    <li className={css.person}>
      <span className={css.who}>
        <bdi>{person.name}</bdi>
        {self && <span className={group.hint}> (you)</span>}
      </span>
      {owner ? (
        <>
          <RoleSelect label={`Role of ${person.name}`} value={person.role} disabled={action.busy} onChange={change} />
          {sure ? (
            <>
              <Button kind="danger" disabled={action.busy} onClick={() => action.run(() => api.removePerson(identity.org.id, person.id), "Removed", onChanged)}>
                Remove {person.name} permanently
              </Button>
              <Button onClick={() => setSure(false)}>Cancel</Button>
            </>
          ) : (
            <Button onClick={() => setSure(true)}>Remove…</Button>
          )}
        </>
      ) : (
        <span className={group.hint}>{person.role}</span>
      )}
      <ActionProblem action={action} className={css.problem} />
    </li>
  );
}

function RoleSelect({ label, value, disabled = false, onChange }: { label: string; value: string; disabled?: boolean; onChange: (role: string) => void }) {
  return (
    <select aria-label={label} value={value} disabled={disabled} onChange={(event) => onChange(event.target.value)}>
      {ROLES.map((role) => (
        <option key={role} value={role}>
          {role}
        </option>
      ))}
    </select>
  );
}

function Invited({ person, onChanged }: { person: Person; onChanged: () => Promise<void> }) {
  const { api, identity } = useSession();
  const action = useAction();
  return (
    <li className={css.person}>
      <span className={css.who}>
        <bdi>{person.name}</bdi>
        <span className={group.hint}> as {person.role}</span>
      </span>
      <Button disabled={action.busy} onClick={() => action.run(() => api.withdraw(identity.org.id, person.id), "Invitation withdrawn", onChanged)}>
        Withdraw invitation
      </Button>
      <ActionProblem action={action} className={css.problem} />
    </li>
  );
}

function Invite({ onMade }: { onMade: () => Promise<void> }) {
  const { api, identity } = useSession();
  const longest = useData((state) => state.limits.name_length);
  const [name, setName] = useState("");
  const [role, setRole] = useState("operator");
  const [link, setLink] = useState<{ name: string; url: string } | null>(null);
  const action = useAction();
  const field = useId();
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    const invited = name.trim();
    if (invited === "") return;
    action.run(
      async () => setLink({ name: invited, url: await api.invite(identity.org.id, invited, role) }),
      "Invited",
      () => {
        setName("");
        return onMade();
      },
    );
  };
  return (
    <>
      <form className={css.invite} onSubmit={submit}>
        <label htmlFor={field}>Invite a person</label>
        <input id={field} value={name} maxLength={longest} autoComplete="off" placeholder="Name" onChange={(event) => setName(event.target.value)} />
        <RoleSelect label="Role of the invited person" value={role} onChange={setRole} />
        <Button type="submit" disabled={action.busy || name.trim() === ""}>
          Create invite link
        </Button>
      </form>
      <ActionProblem action={action} className={css.problem} />
      {link !== null && (
        <div role="group" aria-label={`Invite link for ${link.name}`}>
          <p className={group.hint}>This link logs in {link.name} once. It is shown only once.</p>
          <ShellCommand label={`Invite link for ${link.name}`} text={link.url} />
          <Button onClick={() => setLink(null)}>Done</Button>
        </div>
      )}
    </>
  );
}
