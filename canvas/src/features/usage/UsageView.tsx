/** What agents cost: a bar for each day, and a table of sums. */

import { useState } from "react";
import { useApp } from "../../core/app";
import { USAGE_GROUPINGS, type UsageGrouping } from "../../core/router";
import { plural } from "../../core/text/strings";
import type { UsageReport, UsageRow } from "../../core/wire";
import { Button } from "../../ui/Button";
import { Link } from "../../ui/Link";
import { Notice } from "../../ui/Notice";
import page from "../../ui/Page.module.css";
import { money } from "./money";
import { Prices } from "./Prices";
import { useUsage } from "./useUsage";
import css from "./UsageView.module.css";

const RANGES = [7, 30, 90] as const;
const LABELS: Readonly<Record<UsageGrouping, string>> = { agent: "Agent", team: "Team", model: "Model", day: "Day", request: "Request" };
const DAY_MS = 86_400_000;
const HEIGHT = 40;

export function UsageView({ by }: { by: UsageGrouping }) {
  const { router } = useApp();
  const [range, setRange] = useState<number>(30);
  const { report, days, problem, retry } = useUsage(by, range);
  return (
    <div className={page.page}>
      <div className={page.inside}>
        <div className={css.head}>
          <h2 className={css.title}>Usage</h2>
          <label>
            Sum by{" "}
            <select value={by} onChange={(event) => router.go({ view: "usage", by: event.target.value as UsageGrouping })}>
              {USAGE_GROUPINGS.map((each) => (
                <option key={each} value={each}>{LABELS[each]}</option>
              ))}
            </select>
          </label>
          <label>
            Time{" "}
            <select value={range} onChange={(event) => setRange(Number(event.target.value))}>
              {RANGES.map((each) => (
                <option key={each} value={each}>Last {each} days</option>
              ))}
            </select>
          </label>
        </div>
        {problem !== null ? (
          <Notice icon="warning" title="Could not load usage" actions={<Button onClick={retry}>Try again</Button>}>{problem}</Notice>
        ) : report === null || days === null ? (
          <Notice icon="clock" title="Loading usage…" />
        ) : report.total.turns === 0 ? (
          <Notice icon="usage" title="No usage in this time">Agents report what they used at the end of each turn.</Notice>
        ) : (
          <>
            <DayBars report={days} />
            {by !== "day" && (
              <details>
                <summary className={css.more}>Days as a table</summary>
                <UsageTable report={days} />
              </details>
            )}
            <UsageTable report={report} />
          </>
        )}
        <Prices />
      </div>
    </div>
  );
}

/** Costs by day, or tokens while no cost is known. The caption says the same in words. */
function DayBars({ report }: { report: UsageReport }) {
  const byDay = new Map(report.rows.map((row) => [row.key, row]));
  const count = Math.round((Date.parse(report.until) - Date.parse(report.since)) / DAY_MS) + 1;
  const days = Array.from({ length: count }, (_, index) => new Date(Date.parse(report.since) + index * DAY_MS).toISOString().slice(0, 10));
  const isCost = report.total.cost_micros > 0;
  const amount = (row: UsageRow | undefined): number => (row === undefined ? 0 : isCost ? row.cost_micros : tokens(row));
  const text = (row: UsageRow | undefined): string => (isCost ? money(amount(row), report.currency) : plural(amount(row), "token"));
  const most = Math.max(1, ...days.map((day) => amount(byDay.get(day))));
  return (
    <figure className={css.figure}>
      <svg viewBox={`0 0 ${count} ${HEIGHT}`} preserveAspectRatio="none" className={css.bars} aria-hidden="true">
        {days.map((day, index) => {
          const height = (amount(byDay.get(day)) / most) * HEIGHT;
          return (
            <g key={day}>
              <title>{`${day}: ${text(byDay.get(day))}`}</title>
              <rect x={index} y={0} width={1} height={HEIGHT} className={css.behind} />
              <rect x={index + 0.1} y={HEIGHT - height} width={0.8} height={height} className={css.bar} />
            </g>
          );
        })}
      </svg>
      <figcaption className={css.caption}>
        <span>{text(report.total)} in {plural(report.total.turns, "turn")} from {report.since} to {report.until} (UTC)</span>
        {report.total.turns_without_cost > 0 && <span>The cost of {plural(report.total.turns_without_cost, "turn")} is unknown.</span>}
      </figcaption>
    </figure>
  );
}

function UsageTable({ report }: { report: UsageReport }) {
  return (
    <div className={css.scroll} tabIndex={0} role="region" aria-label={`Sums by ${report.by}`}>
      <table className={css.table}>
        <thead>
          <tr>
            <th scope="col">{LABELS[report.by as UsageGrouping]}</th>
            {["Turns", "Input", "Cached", "Output", "Cost"].map((each) => (
              <th key={each} scope="col" className={css.number}>{each}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {report.rows.map((row) => (
            <Row key={row.key} row={row} report={report} />
          ))}
        </tbody>
        <tfoot>
          <Row row={report.total} report={report} isTotal />
        </tfoot>
      </table>
      {!report.is_complete && <p className={css.caption}>Only the most expensive rows are shown.</p>}
    </div>
  );
}

function Row({ row, report, isTotal = false }: { row: UsageRow; report: UsageReport; isTotal?: boolean }) {
  const cost = row.turns_without_cost === row.turns ? "unknown" : money(row.cost_micros, report.currency);
  return (
    <tr>
      <th scope="row" className={css.name}>{isTotal ? "Total" : <RowName row={row} by={report.by as UsageGrouping} />}</th>
      {[row.turns, row.input_tokens, row.cached_tokens, row.output_tokens].map((each, index) => (
        <td key={index} className={css.number}>{each.toLocaleString("en-GB")}</td>
      ))}
      <td className={css.number}>{cost}</td>
    </tr>
  );
}

function RowName({ row, by }: { row: UsageRow; by: UsageGrouping }) {
  const name = row.name ?? (row.key || "Unknown model");
  if (by === "request") return <Link to={{ view: "trace", id: row.key }} className={css.link}><bdi>{row.name ?? "A request that is no longer stored"}</bdi></Link>;
  if (by === "agent" || by === "team") {
    return <Link to={{ view: "org", focus: row.key, panel: "about", filter: "" }} className={css.link}><bdi>{row.name ?? "A removed agent"}</bdi></Link>;
  }
  return <bdi>{name}</bdi>;
}

function tokens(row: UsageRow): number {
  return row.input_tokens + row.cached_tokens + row.output_tokens;
}
