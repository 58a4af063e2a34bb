/** The A2A agent of a workspace: how it is reached, whether its card was found, and a form to change both. */

import { useEffect, useId, useState, type FormEvent } from "react";
import { useSession } from "../../core/app";
import type { A2AAgent, A2ACredential } from "../../core/api/api";
import type { Workspace } from "../../core/state/model";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { ActionProblem, useAction } from "../../ui/useAction";
import { CredentialFields } from "../connect/A2AAgentForm";
import css from "./About.module.css";
import form from "./AgentActions.module.css";
import { Fact, Section } from "./Section";

const CREDENTIALS: Readonly<Record<string, string>> = { bearer: "Bearer token", api_key: "API key", oauth2: "OAuth2 client" };

const UPDATES: Readonly<Record<string, string>> = { stream: "Stream", push: "Push notifications", poll: "Polling" };

const SIGNATURES: Readonly<Record<string, string>> = { verified: "Verified", not_checked: "Signature not checked", none: "Not signed" };

export function A2AAgentSection({ workspace, cardUrl }: { workspace: Workspace; cardUrl: string }) {
  const { api, canSend } = useSession();
  const [agent, setAgent] = useState<A2AAgent | null>(null);
  const [editing, setEditing] = useState(false);
  // Read again with each revision: a check or a change of the card is one.
  useEffect(() => {
    let current = true;
    api.a2aAgent(workspace.id).then(
      (found) => current && setAgent(found),
      () => current && setAgent(null),
    );
    return () => {
      current = false;
    };
  }, [api, workspace.id, workspace.rev, workspace.status]);
  return (
    <Section title="A2A agent">
      <dl className={css.facts}>
        <Fact name="Card">{cardUrl}</Fact>
        {agent !== null && <Fact name="Called at">{agent.interfaceUrl}</Fact>}
        {agent !== null && <Fact name="Protocol">{agent.protocol}</Fact>}
        {agent !== null && <Fact name="Card signature">{SIGNATURES[agent.signature] ?? agent.signature}</Fact>}
        {agent !== null && <Fact name="Updates">{UPDATES[agent.updates] ?? agent.updates}</Fact>}
        {agent !== null && (
          <Fact name="Credential">{agent.credential === null ? <span className={css.none}>None</span> : (CREDENTIALS[agent.credential] ?? agent.credential)}</Fact>
        )}
      </dl>
      {agent?.updates === "poll" && agent.pushOffered && (
        <p>The agent offers push notifications. They need a public address of the server (public_url).</p>
      )}
      {agent?.error != null && <p role="alert">The card could not be read: {agent.error}</p>}
      {canSend && <Button onClick={() => setEditing(true)}>Change A2A agent</Button>}
      {editing && <A2AAgentDialog workspace={workspace} cardUrl={cardUrl} onClose={() => setEditing(false)} />}
    </Section>
  );
}

function A2AAgentDialog({ workspace, cardUrl, onClose }: { workspace: Workspace; cardUrl: string; onClose: () => void }) {
  const { api } = useSession();
  const [url, setUrl] = useState(cardUrl);
  const [credential, setCredential] = useState<A2ACredential | null>(null);
  const action = useAction();
  const id = useId();
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    action.run(() => api.changeWorkspace(workspace.id, { a2a_card_url: url.trim(), a2a_credential: credential }), "Saved", onClose);
  };
  return (
    <Dialog label={`A2A agent of ${workspace.name}`} onClose={onClose}>
      <form className={form.dialog} onSubmit={submit}>
        <div className={form.field}>
          <label htmlFor={`${id}card`}>Agent card</label>
          <input id={`${id}card`} type="url" value={url} required autoComplete="off" onChange={(event) => setUrl(event.target.value)} />
        </div>
        <CredentialFields value={credential} onChange={setCredential} />
        <p className={form.lead}>Saving reads the card again, and replaces the stored credential.</p>
        <ActionProblem action={action} className={form.problem} />
        <div className={form.buttons}>
          <Button kind="primary" type="submit" disabled={url.trim() === "" || action.busy}>
            Save
          </Button>
          <Button onClick={onClose}>Cancel</Button>
        </div>
      </form>
    </Dialog>
  );
}
