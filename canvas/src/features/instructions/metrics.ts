/** Metrics of a template's versions, as the server counts them. Pure. */

import { list, members, number, text } from "../../core/state/json";

export interface VersionMetrics {
  version: number;
  deliveries: number;
  answered: number;
  declined: number;
  outside: number;
  overdue: number;
  open: number;
  /** Share of the closed messages that were answered or declined; null: none is closed. */
  rate: number | null;
  tokens: number;
}

interface Share {
  version: number;
  good: number;
  missed: number;
  rate: number | null;
}

export interface Trial {
  since: string;
  percent: number;
  base: Share;
  canary: Share;
  /** Probability from 0 to 1 that an equally good version would look this bad. */
  chance: number | null;
  /** At this probability, or below, the trial ends; null: it cannot end now. */
  needs: number | null;
}

export interface TemplateMetrics {
  versions: readonly VersionMetrics[];
  trial: Trial | null;
}

export function templateMetricsOf(value: unknown): TemplateMetrics {
  return { versions: list(value, "versions").map(versionMetrics), trial: trialOf(members(value)?.["trial"]) };
}

function versionMetrics(row: unknown): VersionMetrics {
  const count = (name: string): number => number(row, name) ?? 0;
  return {
    version: count("version"),
    deliveries: count("deliveries"),
    answered: count("answered"),
    declined: count("declined"),
    outside: count("answered_outside"),
    overdue: count("overdue"),
    open: count("open"),
    rate: number(row, "rate"),
    tokens: count("tokens"),
  };
}

function trialOf(value: unknown): Trial | null {
  const [since, percent] = [text(value, "since"), number(value, "percent")];
  if (since === null || percent === null) return null;
  const share = (name: string): Share => {
    const row = members(value)?.[name];
    return { version: number(row, "version") ?? 0, good: number(row, "good") ?? 0, missed: number(row, "missed") ?? 0, rate: number(row, "rate") };
  };
  return { since, percent, base: share("base"), canary: share("canary"), chance: number(value, "chance"), needs: number(value, "needs") };
}

export function rateText(rate: number | null): string {
  return rate === null ? "–" : `${(rate * 100).toFixed(rate === 1 || rate === 0 ? 0 : 1)} %`;
}

/** Summary of all versions. */
export function summaryText({ versions }: TemplateMetrics): string {
  const sum = (of: (each: VersionMetrics) => number): number => versions.reduce((total, each) => total + of(each), 0);
  const deliveries = sum((each) => each.deliveries);
  if (deliveries === 0) return "No messages yet";
  const good = sum((each) => each.answered + each.declined);
  const missed = sum((each) => each.outside + each.overdue);
  const rate = good + missed === 0 ? null : good / (good + missed);
  const many = `${deliveries.toLocaleString("en-GB")} ${deliveries === 1 ? "message" : "messages"}`;
  return rate === null ? many : `${many}, ${rateText(rate)} answered`;
}
