/** Create a workspace whose agent is an A2A agent of others, by the address of its card. */

import { useId, useState, type FormEvent } from "react";
import { useApp, useData, useSession } from "../../core/app";
import { errorText, type A2ACredential } from "../../core/api/api";
import { Button } from "../../ui/Button";
import css from "./ConnectView.module.css";
import { ParentField } from "./WorkspaceForm";

export function A2AAgentForm() {
  const { api, canSend } = useSession();
  const { router } = useApp();
  const longest = useData((state) => state.limits.name_length);
  const [cardUrl, setCardUrl] = useState("");
  const [name, setName] = useState("");
  const [parent, setParent] = useState("");
  const [credential, setCredential] = useState<A2ACredential | null>(null);
  const [keySet, setKeySet] = useState("");
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  const id = useId();

  const create = async (): Promise<void> => {
    const made = await api.createWorkspace({
      name: name.trim(),
      a2a_card_url: cardUrl.trim(),
      ...(credential === null ? {} : { a2a_credential: credential }),
      ...(keySet.trim() === "" ? {} : { a2a_card_keys: { jwks_url: keySet.trim() } }),
      ...(parent === "" ? {} : { parent_id: parent }),
    });
    router.go({ view: "org", focus: made.id, panel: "chat", filter: "" });
  };
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (cardUrl.trim() === "" || name.trim() === "") {
      setProblem("Enter the address of the agent card and a name.");
      return;
    }
    setBusy(true);
    setProblem(null);
    create().catch((error: unknown) => {
      setProblem(errorText(error));
      setBusy(false);
    });
  };

  if (!canSend) return <p className={css.lead}>Viewers cannot create workspaces. Ask an owner to change your role.</p>;
  return (
    <form className={css.form} onSubmit={submit} noValidate aria-label="Add an A2A agent">
      <div className={css.field}>
        <label htmlFor={`${id}card`}>Agent card</label>
        <input
          id={`${id}card`}
          type="url"
          inputMode="url"
          value={cardUrl}
          required
          autoComplete="off"
          placeholder="https://agents.example/.well-known/agent-card.json"
          aria-describedby={`${id}cardhint`}
          onChange={(event) => setCardUrl(event.target.value)}
        />
        <p id={`${id}cardhint`} className={css.hint}>
          The address of the card of an A2A agent. The server reads it now, and calls the agent from then on.
        </p>
      </div>
      <div className={css.field}>
        <label htmlFor={`${id}name`}>Name</label>
        <input id={`${id}name`} value={name} maxLength={longest} required autoComplete="off" onChange={(event) => setName(event.target.value)} />
      </div>
      <ParentField value={parent} onChange={setParent} />
      <CredentialFields value={credential} onChange={setCredential} />
      <div className={css.field}>
        <label htmlFor={`${id}keys`}>Key set of its signer</label>
        <input
          id={`${id}keys`}
          type="url"
          inputMode="url"
          value={keySet}
          autoComplete="off"
          placeholder="https://agents.example/.well-known/jwks.json"
          aria-describedby={`${id}keyshint`}
          onChange={(event) => setKeySet(event.target.value)}
        />
        <p id={`${id}keyshint`} className={css.hint}>
          Optional. A card without a signature of one of these keys is refused.
        </p>
      </div>
      {problem !== null && (
        <p className={css.problem} role="alert">
          {problem}
        </p>
      )}
      <div>
        <Button type="submit" kind="primary" disabled={busy}>
          {busy ? "Reading card…" : "Add agent"}
        </Button>
      </div>
    </form>
  );
}

const KINDS: readonly { kind: A2ACredential["kind"]; title: string; secret: string }[] = [
  { kind: "bearer", title: "Bearer token", secret: "Token" },
  { kind: "api_key", title: "API key", secret: "Key" },
  { kind: "oauth2", title: "OAuth2 client", secret: "Client secret" },
];

/** A credential, which the server keeps and never shows again. */
export function CredentialFields({ value, onChange }: { value: A2ACredential | null; onChange: (value: A2ACredential | null) => void }) {
  const id = useId();
  const chosen = KINDS.find((each) => each.kind === value?.kind);
  const choose = (kind: string): void => {
    const found = KINDS.find((each) => each.kind === kind);
    onChange(found === undefined ? null : { kind: found.kind, secret: value?.secret ?? "" });
  };
  return (
    <>
      <div className={css.field}>
        <label htmlFor={`${id}kind`}>Credential</label>
        <select id={`${id}kind`} value={value?.kind ?? ""} onChange={(event) => choose(event.target.value)}>
          <option value="">None</option>
          {KINDS.map((each) => (
            <option key={each.kind} value={each.kind}>
              {each.title}
            </option>
          ))}
        </select>
      </div>
      {value?.kind === "oauth2" && (
        <div className={css.field}>
          <label htmlFor={`${id}client`}>Client ID</label>
          <input id={`${id}client`} value={value.client_id ?? ""} autoComplete="off" onChange={(event) => onChange({ ...value, client_id: event.target.value })} />
        </div>
      )}
      {value !== null && chosen !== undefined && (
        <div className={css.field}>
          <label htmlFor={`${id}secret`}>{chosen.secret}</label>
          <input
            id={`${id}secret`}
            type="password"
            value={value.secret}
            autoComplete="off"
            aria-describedby={`${id}secrethint`}
            onChange={(event) => onChange({ ...value, secret: event.target.value })}
          />
          <p id={`${id}secrethint`} className={css.hint}>
            Sent only to the addresses that the card names now. It is not shown again.
          </p>
        </div>
      )}
    </>
  );
}
