/** OAuth clients of the organisation: apps that cannot name themselves by a document. Owners register them here. */

import { useEffect, useId, useState, type FormEvent } from "react";
import { useData, useSession } from "../../core/app";
import { errorText, type OAuthClient } from "../../core/api/api";
import { Button } from "../../ui/Button";
import { CopyButton } from "../../ui/CopyButton";
import group from "../../ui/SettingsGroup.module.css";
import { ActionProblem, useAction } from "../../ui/useAction";
import css from "./Apps.module.css";

export function OAuthClients() {
  const { api, identity } = useSession();
  const owner = identity.user.role === "owner";
  const [clients, setClients] = useState<readonly OAuthClient[] | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const reread = async (): Promise<void> => {
    try {
      setClients(await api.oauthClients(identity.org.id));
      setProblem(null);
    } catch (error) {
      setProblem(errorText(error));
    }
  };
  useEffect(() => {
    if (owner) void reread();
  }, [owner]);
  if (!owner) return null;
  return (
    <section className={group.group} aria-labelledby="settings-clients">
      <h3 id="settings-clients">OAuth clients</h3>
      <p className={group.hint}>Most apps that connect to a workspace need no entry here. Register one if the app asks for a client ID.</p>
      {problem !== null && <p role="alert">{problem}</p>}
      {clients !== null && clients.length > 0 && (
        <ul className={css.apps} aria-label="OAuth clients">
          {clients.map((client) => (
            <Client key={client.client_id} client={client} onChanged={reread} />
          ))}
        </ul>
      )}
      <Register onMade={reread} />
    </section>
  );
}

function Client({ client, onChanged }: { client: OAuthClient; onChanged: () => Promise<void> }) {
  const { api, identity } = useSession();
  const [sure, setSure] = useState(false);
  const action = useAction();
  return (
    <li className={css.app}>
      <span className={css.who}>
        <bdi>{client.name}</bdi> <code>{client.client_id}</code>
        <CopyButton text={client.client_id} label={`Copy client ID of ${client.name}`} />
        <span className={css.hint}> {client.redirect_uris.join(", ")}</span>
      </span>
      {sure ? (
        <>
          <Button
            kind="danger"
            disabled={action.busy}
            onClick={() => action.run(() => api.removeClient(identity.org.id, client.client_id), "Removed", onChanged)}
          >
            Remove and disconnect {client.name}
          </Button>
          <Button onClick={() => setSure(false)}>Cancel</Button>
        </>
      ) : (
        <Button onClick={() => setSure(true)}>Remove…</Button>
      )}
      <ActionProblem action={action} className={css.problem} />
    </li>
  );
}

function Register({ onMade }: { onMade: () => Promise<void> }) {
  const { api, identity } = useSession();
  const longest = useData((state) => state.limits.name_length);
  const [name, setName] = useState("");
  const [uri, setUri] = useState("");
  const action = useAction();
  const field = useId();
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    action.run(
      () => api.registerClient(identity.org.id, name.trim(), [uri.trim()]),
      "Registered",
      () => {
        setName("");
        setUri("");
        return onMade();
      },
    );
  };
  return (
    <form className={css.form} onSubmit={submit}>
      <label htmlFor={field}>Register a client</label>
      <input id={field} value={name} maxLength={longest} autoComplete="off" placeholder="Name" onChange={(event) => setName(event.target.value)} />
      <input
        aria-label="Redirect address"
        value={uri}
        maxLength={1000}
        autoComplete="off"
        placeholder="https://app.example/callback"
        onChange={(event) => setUri(event.target.value)}
      />
      <Button type="submit" disabled={action.busy || name.trim() === "" || uri.trim() === ""}>
        Register
      </Button>
      <ActionProblem action={action} className={css.problem} />
    </form>
  );
}
