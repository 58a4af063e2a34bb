/** Requests about instructions. */

import type { Api } from "../../core/api/api";
import { list } from "../../core/state/json";
import {
  bodyOf, previewOf, rowOf, templateOf, versionOf, warningsOf,
  type Finding, type Parts, type Preview, type Row, type Template, type Version,
} from "./model";
import { templateMetricsOf, type TemplateMetrics } from "./metrics";

export interface PreviewRequest {
  workspaceId: string;
  kind: string;
  form: string;
  templateId: string;
  parts: Parts;
}

/** The response has an unknown shape. */
class UnexpectedResponseError extends Error {
  constructor() {
    super("The server sent a response that this page cannot read. Reload the page.");
  }
}

export class InstructionsApi {
  private readonly api: Api;
  private readonly root: string;

  constructor(api: Api, orgId: string) {
    this.api = api;
    this.root = `/orgs/${encodeURIComponent(orgId)}/instruction-templates`;
  }

  async templates(): Promise<readonly Row[]> {
    return list(await this.api.request("GET", this.root)).map(rowOf).filter((each) => each !== null);
  }

  async template(id: string): Promise<Template> {
    return known(templateOf(await this.api.request("GET", this.at(id))));
  }

  async versions(id: string): Promise<readonly Version[]> {
    return list(await this.api.request("GET", `${this.at(id)}/versions`)).map(versionOf).filter((each) => each !== null);
  }

  async figures(id: string): Promise<TemplateMetrics> {
    return templateMetricsOf(await this.api.request("GET", `${this.at(id)}/figures`));
  }

  make(wanted: { id: string; runtime: string; extends: string; parts: Parts }): Promise<unknown> {
    const { parts, ...rest } = wanted;
    return this.api.request("POST", this.root, { ...rest, parts: bodyOf(parts) });
  }

  /** Save a new version. One that is not activated can be tried on a share of the messages. */
  save(id: string, parts: Parts, note: string, inForce: boolean): Promise<unknown> {
    const body = { parts: bodyOf(parts), in_force: inForce, ...(note === "" ? {} : { note }) };
    return this.api.request("PUT", this.at(id), body);
  }

  /** Delete the organisation's own versions. */
  remove(id: string): Promise<unknown> {
    return this.api.request("DELETE", this.at(id), {});
  }

  restore(id: string, version: number): Promise<unknown> {
    return this.api.request("POST", `${this.at(id)}/restore`, { version });
  }

  /** Try a version on a share of the messages; 0 ends the trial, 100 activates it. */
  share(id: string, version: number, percent: number): Promise<unknown> {
    return this.api.request("POST", `${this.at(id)}/canary`, { version, percent });
  }

  /** Set the template of a workspace; null: the default of its runtime. */
  assign(workspaceId: string, templateId: string | null): Promise<unknown> {
    const path = `/cp/admin/workspace/${encodeURIComponent(workspaceId)}/instruction-template`;
    return templateId === null ? this.api.request("DELETE", path, {}) : this.api.request("POST", path, { template_id: templateId });
  }

  async preview({ workspaceId, kind, form, templateId, parts }: PreviewRequest): Promise<{ preview: Preview; warnings: readonly Finding[] }> {
    const input = { workspace_id: workspaceId, kind, form, template_id: templateId, parts: bodyOf(parts) };
    const answer = await this.api.request("POST", `${this.root}/preview`, input);
    return { preview: previewOf(answer), warnings: warningsOf(answer) };
  }

  private at(id: string): string {
    return `${this.root}/${encodeURIComponent(id)}`;
  }
}

function known<T>(value: T | null): T {
  if (value === null) throw new UnexpectedResponseError();
  return value;
}
