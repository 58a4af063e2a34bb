/** What a million tokens of each model cost. Costs that programs do not report are computed from it. */

import { useCallback, useEffect, useId, useState, type FormEvent } from "react";
import { errorText } from "../../core/api/api";
import { useSession } from "../../core/app";
import type { ModelPriceItem, PriceListView } from "../../core/wire";
import { Button } from "../../ui/Button";
import form from "../../ui/InlineForm.module.css";
import group from "../../ui/SettingsGroup.module.css";
import { ActionProblem, useAction } from "../../ui/useAction";
import { MICROS, money, parsePrice } from "./money";
import css from "./UsageView.module.css";

const KINDS = [
  ["input_micros", "Input"],
  ["cached_micros", "Cached"],
  ["output_micros", "Output"],
] as const;
const EMPTY = { model: "", input_micros: "", cached_micros: "0", output_micros: "" };

export function Prices() {
  const { api, identity } = useSession();
  const path = `/orgs/${encodeURIComponent(identity.org.id)}/usage/prices`;
  const [found, setFound] = useState<PriceListView | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const [typed, setTyped] = useState(EMPTY);
  const action = useAction();
  const id = useId();
  const mayChange = identity.user.role !== "viewer";
  const read = useCallback(() => api.request<PriceListView>("GET", path), [api, path]);
  useEffect(() => {
    read().then(setFound, (error: unknown) => setProblem(errorText(error)));
  }, [read]);
  const [currency, setCurrency] = useState<string | null>(null);
  /** Only the price of one model is changed: others may be edited elsewhere. */
  const save = async (model: string, price: ModelPriceItem | null): Promise<void> => {
    const now = await read();
    const prices = now.prices.filter((each) => each.model !== model);
    const body = { currency: currency ?? now.currency, prices: price === null ? prices : [...prices, price] };
    setFound(await api.request<PriceListView>("PUT", path, body));
  };
  const [input, cached, output] = KINDS.map(([kind]) => parsePrice(typed[kind]));
  const model = typed.model.trim();
  const price = model === "" || input == null || cached == null || output == null ? null : { model, input_micros: input, cached_micros: cached, output_micros: output };
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (price !== null) action.run(() => save(model, price), "Saved", () => setTyped(EMPTY));
  };
  if (found === null) return problem === null ? null : <p role="alert">{problem}</p>;
  const shown = (micros: number): string => money(micros, found.currency);
  return (
    <section className={group.group} aria-labelledby={`${id}title`}>
      <h3 id={`${id}title`}>Prices</h3>
      <p className={group.hint}>
        For a million tokens. The cost of a turn is computed from them if its program reports none. A name may end with *. Recorded costs do not change.
      </p>
      {found.prices.length > 0 && (
        <div className={css.scroll} tabIndex={0} role="region" aria-label="Prices of models">
          <table className={css.table}>
            <thead>
              <tr>
                <th scope="col">Model</th>
                {KINDS.map(([kind, label]) => (
                  <th key={kind} scope="col" className={css.number}>{label}</th>
                ))}
                {mayChange && <td />}
              </tr>
            </thead>
            <tbody>
              {found.prices.map((each) => (
                <tr key={each.model}>
                  <th scope="row" className={css.name}><bdi>{each.model}</bdi></th>
                  {KINDS.map(([kind]) => (
                    <td key={kind} className={css.number}>{shown(each[kind] ?? 0)}</td>
                  ))}
                  {mayChange && (
                    <td className={css.number}>
                      <Button onClick={() => setTyped(typedOf(each))} disabled={action.busy} aria-label={`Change… price of ${each.model}`}>Change…</Button>{" "}
                      <Button onClick={() => action.run(() => save(each.model, null), "Deleted")} disabled={action.busy} aria-label={`Delete price of ${each.model}`}>Delete</Button>
                    </td>
                  )}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {found.prices.length === 0 && <p>No prices yet: costs are known only where programs report them.</p>}
      {mayChange && (
        <form className={form.form} onSubmit={submit}>
          <label htmlFor={`${id}model`} className={form.whole}>Set the price of a model</label>
          <input id={`${id}model`} value={typed.model} placeholder="gpt-5*" autoComplete="off" onChange={(event) => setTyped({ ...typed, model: event.target.value })} />
          {KINDS.map(([kind, label]) => (
            <label key={kind}>
              {label}{" "}
              <input value={typed[kind]} inputMode="decimal" autoComplete="off" onChange={(event) => setTyped({ ...typed, [kind]: event.target.value })} />
            </label>
          ))}
          {found.version === 0 && (
            <label>
              Currency{" "}
              <input value={currency ?? found.currency} size={4} maxLength={3} autoComplete="off" onChange={(event) => setCurrency(event.target.value.toUpperCase())} />
            </label>
          )}
          <Button type="submit" disabled={price === null || action.busy}>Save price</Button>
        </form>
      )}
      <ActionProblem action={action} className={undefined} />
    </section>
  );
}

function typedOf(price: ModelPriceItem): typeof EMPTY {
  const text = (micros: number | undefined): string => String((micros ?? 0) / MICROS);
  return { model: price.model, input_micros: text(price.input_micros), cached_micros: text(price.cached_micros), output_micros: text(price.output_micros) };
}
