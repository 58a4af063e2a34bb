/** The budgets that limit an agent, and what each of its turns reserves of them. Operators and owners change the latter. */

import { useCallback, useEffect, useState, type FormEvent } from "react";
import { errorText } from "../../core/api/api";
import { useSession } from "../../core/app";
import { useStored } from "../../core/store/store";
import type { BudgetView, TurnLeaseBody, WorkspaceBudgets } from "../../core/wire";
import { Button } from "../../ui/Button";
import form from "../../ui/InlineForm.module.css";
import { ActionProblem, useAction } from "../../ui/useAction";
import { amountText, parseAmount, stateText, usageText } from "./amounts";
import { useTargetName } from "./Budgets";

export function WorkspaceBudget({ workspaceId }: { workspaceId: string }) {
  const { api, identity, budgetChanges } = useSession();
  const changes = useStored(budgetChanges);
  const path = `/workspaces/${encodeURIComponent(workspaceId)}`;
  const [found, setFound] = useState<WorkspaceBudgets | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const [typed, setTyped] = useState<{ money: string; tokens: string } | null>(null);
  const action = useAction();
  const read = useCallback(() => api.request<WorkspaceBudgets>("GET", `${path}/budgets`).then(setFound, (error: unknown) => setProblem(errorText(error))), [api, path]);
  useEffect(() => void read(), [read, changes]);
  if (found === null) return problem === null ? null : <p role="alert">{problem}</p>;
  const lease = found.turn_lease;
  const [money, tokens] = [parseAmount("money", typed?.money ?? ""), parseAmount("tokens", typed?.tokens ?? "")];
  const save = (event: FormEvent): void => {
    event.preventDefault();
    if (money === null || tokens === null) return;
    action.run(() => api.request<TurnLeaseBody>("PUT", `${path}/turn-lease`, { money, tokens }), "Saved", () => {
      setTyped(null);
      return read();
    });
  };
  return (
    <>
      {found.budgets.length === 0 && <p>No budget limits this agent alone or with its team.</p>}
      {found.budgets.map((budget) => (
        <Limit key={budget.budget_id} budget={budget} />
      ))}
      {typed === null ? (
        <p className={form.form}>
          Before a turn it reserves {amountText("money", lease.money)} or {amountText("tokens", lease.tokens)}.
          {identity.user.role !== "viewer" && (
            <Button onClick={() => setTyped({ money: amountText("money", lease.money), tokens: lease.tokens.toLocaleString("en-GB") })}>Change reservation…</Button>
          )}
        </p>
      ) : (
        <form className={form.form} onSubmit={save}>
          <label>
            Money <input value={typed.money} inputMode="decimal" autoComplete="off" onChange={(event) => setTyped({ ...typed, money: event.target.value })} />
          </label>
          <label>
            Tokens <input value={typed.tokens} inputMode="decimal" autoComplete="off" onChange={(event) => setTyped({ ...typed, tokens: event.target.value })} />
          </label>
          <Button type="submit" disabled={money === null || tokens === null || action.busy}>Save reservation</Button>
          <Button onClick={() => setTyped(null)}>Cancel</Button>
        </form>
      )}
      <ActionProblem action={action} className={undefined} />
    </>
  );
}

function Limit({ budget }: { budget: BudgetView }) {
  const name = useTargetName(budget);
  const state = stateText(budget);
  return (
    <p>
      <bdi>{name}</bdi>: {usageText(budget)}
      {state !== "" && <strong>{` ${state}`}</strong>}
    </p>
  );
}
