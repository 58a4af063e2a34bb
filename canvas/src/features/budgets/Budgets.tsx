/** Budgets of workspaces, teams, chains and delegations: how much is used. Operators and owners change them here. */

import { useEffect, useId, useState, type FormEvent } from "react";
import { useData, useSession } from "../../core/app";
import { errorText } from "../../core/api/api";
import { useStored } from "../../core/store/store";
import type { BudgetView } from "../../core/wire";
import { Button } from "../../ui/Button";
import form from "../../ui/InlineForm.module.css";
import group from "../../ui/SettingsGroup.module.css";
import { ActionProblem, useAction } from "../../ui/useAction";
import { amountText, parseAmount, stateText, usageText } from "./amounts";
import css from "./Budgets.module.css";

const PERIODS = [
  ["day", "per day"],
  ["week", "per week"],
  ["month", "per month"],
  ["total", "in all"],
] as const;

export function Budgets() {
  const { budgets, problem, reread } = useBudgets();
  const { identity } = useSession();
  const mayChange = identity.user.role !== "viewer";
  if (budgets === null) return problem === null ? null : <p role="alert">{problem}</p>;
  return (
    <section className={group.group} aria-labelledby="settings-budgets">
      <h3 id="settings-budgets">Budgets</h3>
      {budgets.length === 0 && <p className={group.hint}>Agents can use as much as they need.</p>}
      <ul className={css.budgets} aria-label="Budgets">
        {budgets.map((budget) => (
          <BudgetRow key={budget.budget_id} budget={budget} mayChange={mayChange} onChanged={reread} />
        ))}
      </ul>
      {mayChange && <AddBudget onAdded={reread} />}
    </section>
  );
}

/** Read again when a budget changes or is used up. */
function useBudgets(): { budgets: readonly BudgetView[] | null; problem: string | null; reread: () => Promise<void> } {
  const session = useSession();
  const changes = useStored(session.budgetChanges);
  const [budgets, setBudgets] = useState<readonly BudgetView[] | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const { api, identity } = session;
  const reread = async (): Promise<void> => {
    try {
      setBudgets(await api.budgets(identity.org.id));
    } catch (error) {
      setProblem(errorText(error));
    }
  };
  useEffect(() => void reread(), [changes]);
  return { budgets, problem, reread };
}

function BudgetRow({ budget, mayChange, onChanged }: { budget: BudgetView; mayChange: boolean; onChanged: () => Promise<void> }) {
  const { api, identity } = useSession();
  const name = useTargetName(budget);
  const [typed, setTyped] = useState<string | null>(null);
  const action = useAction();
  const id = useId();
  const limit = budget.limit + budget.raised;
  const amount = typed === null ? null : parseAmount(budget.unit, typed);
  const save = (event: FormEvent): void => {
    event.preventDefault();
    if (amount === null) return;
    action.run(() => api.changeBudget(identity.org.id, budget.budget_id, amount), "Saved", () => {
      setTyped(null);
      return onChanged();
    });
  };
  const remove = (): void => action.run(() => api.deleteBudget(identity.org.id, budget.budget_id), "Deleted", onChanged);
  return (
    <li className={form.form}>
      <span className={css.name}>{name}</span>
      <meter className={css.meter} min={0} max={limit} high={limit * 0.8} optimum={0} value={budget.spent + budget.leased} aria-label={`Use of the budget of ${name}`} />
      <span className={css.use}>
        {usageText(budget)}
        {stateText(budget) !== "" && <strong>{` ${stateText(budget)}`}</strong>}
      </span>
      {mayChange && typed === null && (
        <span className={form.form}>
          <Button onClick={() => setTyped(amountText(budget.unit, budget.limit).replace(" tokens", ""))} disabled={action.busy}>
            Change…
          </Button>
          <Button onClick={remove} disabled={action.busy}>
            Delete
          </Button>
        </span>
      )}
      {typed !== null && (
        <form className={form.form} onSubmit={save}>
          <label htmlFor={id}>{`Limit of ${name}`}</label>
          <input id={id} value={typed} inputMode="decimal" autoComplete="off" onChange={(event) => setTyped(event.target.value)} />
          <Button type="submit" disabled={amount === null || action.busy}>
            Save
          </Button>
          <Button onClick={() => setTyped(null)}>Cancel</Button>
        </form>
      )}
      <ActionProblem action={action} className={form.whole} />
    </li>
  );
}

export function useTargetName(budget: BudgetView): string {
  const workspaces = useData((state) => state.workspaces);
  const name = workspaces.get(budget.workspace_id)?.name ?? budget.workspace_id;
  if (budget.scope === "subtree") return `${name} and its team`;
  if (budget.scope === "chain") return `A request to ${name}`;
  return budget.scope === "delegation" ? `A task of ${name}` : name;
}

function AddBudget({ onAdded }: { onAdded: () => Promise<void> }) {
  const { api, identity } = useSession();
  const workspaces = useData((state) => state.workspaces);
  const names = [...workspaces.values()].sort((one, other) => one.name.localeCompare(other.name));
  const [target, setTarget] = useState("");
  const [scope, setScope] = useState("subtree");
  const [unit, setUnit] = useState("money");
  const [period, setPeriod] = useState("day");
  const [typed, setTyped] = useState("");
  const action = useAction();
  const id = useId();
  const limit = parseAmount(unit, typed);
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (limit === null) return;
    action.run(() => api.createBudget(identity.org.id, { scope, target_id: target, unit, limit, period }), "Added", () => {
      setTyped("");
      return onAdded();
    });
  };
  return (
    <form className={form.form} onSubmit={submit}>
      <label htmlFor={id} className={form.whole}>Add a budget</label>
      <select aria-label="Workspace" value={target} onChange={(event) => setTarget(event.target.value)}>
        <option value="">Choose a workspace</option>
        {names.map((each) => (
          <option key={each.id} value={each.id}>
            {each.name}
          </option>
        ))}
      </select>
      <select aria-label="Scope" value={scope} onChange={(event) => setScope(event.target.value)}>
        <option value="subtree">with its team</option>
        <option value="workspace">alone</option>
      </select>
      <input id={id} value={typed} inputMode="decimal" autoComplete="off" placeholder={unit === "money" ? "20.00" : "1,000,000"} onChange={(event) => setTyped(event.target.value)} />
      <select aria-label="Unit" value={unit} onChange={(event) => setUnit(event.target.value)}>
        <option value="money">money</option>
        <option value="tokens">tokens</option>
      </select>
      <select aria-label="Period" value={period} onChange={(event) => setPeriod(event.target.value)}>
        {PERIODS.map(([value, label]) => (
          <option key={value} value={value}>
            {label}
          </option>
        ))}
      </select>
      <Button type="submit" disabled={target === "" || limit === null || action.busy}>
        Add budget
      </Button>
      <ActionProblem action={action} className={form.whole} />
    </form>
  );
}
