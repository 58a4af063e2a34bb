/** The server's setup steps for a host and this workspace: one command, or by hand. */

import { useEffect, useState } from "react";
import { useSession } from "../../core/app";
import { errorText } from "../../core/api/api";
import { ShellCommand } from "../../ui/ShellCommand";
import type { ConnectPage, ConnectStep } from "../../core/wire";
import css from "./ConnectView.module.css";
import { HostSelect, type Hosts } from "./useHosts";

export function SetupSteps({ workspaceId, hosts }: { workspaceId: string; hosts: Hosts }) {
  const { page, problem } = useConnectPage(workspaceId, hosts.chosen?.name ?? null);
  return (
    <section className={css.box} aria-label="Setup" aria-busy={page === null && problem === null}>
      <HostSelect hosts={hosts} />
      {problem !== null && (
        <p className={css.problem} role="alert">
          {problem}
        </p>
      )}
      {page !== null && <Page page={page} />}
    </section>
  );
}

function Page({ page }: { page: ConnectPage }) {
  const { quick } = page;
  if (quick === null) return <ByHand steps={page.by_hand} />;
  return (
    <>
      <Step step={quick} />
      <details className={css.details} key={page.host}>
        <summary>Set up manually</summary>
        <ByHand steps={page.by_hand} />
      </details>
    </>
  );
}

function ByHand({ steps }: { steps: readonly ConnectStep[] }) {
  return (
    <ol className={css.byHand}>
      {steps.map((step) => (
        <li key={step.title}>
          <Step step={step} />
        </li>
      ))}
    </ol>
  );
}

function Step({ step }: { step: ConnectStep }) {
  return (
    <div className={css.howTo}>
      <p className={css.what}>
        <InlineCode text={step.title} />
      </p>
      <ShellCommand label={step.title.replaceAll("`", "")} text={step.text.trimEnd()} />
      {step.hint !== "" && (
        <p className={css.hint}>
          <InlineCode text={step.hint} />
        </p>
      )}
    </div>
  );
}

/** Text between backticks is code. */
function InlineCode({ text }: { text: string }) {
  const pieces = text.split("`");
  return pieces.map((piece, at) => (at % 2 === 1 ? <code key={at}>{piece}</code> : piece));
}

function useConnectPage(workspaceId: string, host: string | null): { page: ConnectPage | null; problem: string | null } {
  const { api } = useSession();
  const [page, setPage] = useState<ConnectPage | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  useEffect(() => {
    if (host === null) return;
    let open = true;
    setProblem(null);
    api.connectPage(workspaceId, host).then(
      (found) => open && setPage(found),
      (error: unknown) => open && setProblem(errorText(error)),
    );
    return () => void (open = false);
  }, [api, workspaceId, host]);
  return { page: page?.host === host ? page : null, problem };
}
