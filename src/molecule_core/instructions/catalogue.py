"""In-memory cache of all templates, so that none costs a query.

Loaded at start; changed by the writers after their commit, and by `TemplateCacheSync` where several processes share a
store."""

from collections.abc import Iterable, Iterator

from molecule_core.instructions.model import BUILT_IN_ORG, ActiveVersion, Template, TemplateVersionRef


class TemplateCatalogue:
    """All versions of all templates and which are active. `change_count` grows with each change."""

    def __init__(self) -> None:
        self._versions: dict[tuple[str, str], dict[int, Template]] = {}
        self._active: dict[tuple[str, str], ActiveVersion] = {}
        self.change_count = 0

    def put_versions(self, templates: Iterable[Template], active_versions: Iterable[ActiveVersion]) -> None:
        """Add versions, and replace active versions."""
        for template in templates:
            self._versions.setdefault((template.org_id, template.id), {})[template.version] = template
        for each in active_versions:
            self._active[each.org_id, each.id] = each
        self.change_count += 1

    def with_candidate(self, template: Template) -> "TemplateCatalogue":
        """Return a copy with one more version, which is active."""
        other = TemplateCatalogue()
        other._versions = {name: dict(versions) for name, versions in self._versions.items()}
        other._active = dict(self._active)
        other.put_versions(
            [template], [ActiveVersion(template.org_id, template.id, template.version, None, 0, template.created_at)]
        )
        return other

    def active_version(self, org_id: str, template_id: str) -> ActiveVersion | None:
        """Return the active version of a template: the organisation's, else the built-in one, else None."""
        for owner in (org_id, BUILT_IN_ORG):
            found = self._active.get((owner, template_id))
            if found is not None and found.removed_at is None:
                return found
        return None

    def own_active_version(self, org_id: str, template_id: str) -> ActiveVersion | None:
        """Return the organisation's own active version, also if it was removed."""
        return self._active.get((org_id, template_id))

    def find_active_template(self, org_id: str, template_id: str) -> Template | None:
        """Return the active template as the organisation sees it."""
        choice = self.active_version(org_id, template_id)
        return None if choice is None else self.find_version(choice.org_id, template_id, choice.version)

    def find_version(self, org_id: str, template_id: str, version: int) -> Template | None:
        """Return one version as the organisation sees it: its own, else the built-in one.

        To find an active version, pass the `org_id` of its `ActiveVersion`: an organisation's version must not replace
        the built-in one of the same number."""
        for owner in (org_id, BUILT_IN_ORG):
            found = self._versions.get((owner, template_id), {}).get(version)
            if found is not None:
                return found
        return None

    def find_by_ref(self, choice: TemplateVersionRef) -> Template | None:
        """Return the version that a reference names."""
        return self._versions.get((choice.org_id, choice.template_id), {}).get(choice.version)

    def list_versions(self, org_id: str, template_id: str) -> list[Template]:
        """Return all versions available to an organisation, newest first.

        These are its own and the built-in ones. A number can occur twice, the organisation's own first."""
        owners = (org_id, BUILT_IN_ORG) if org_id != BUILT_IN_ORG else (BUILT_IN_ORG,)
        all_versions = [each for owner in owners for each in self._versions.get((owner, template_id), {}).values()]
        return sorted(all_versions, key=lambda each: -each.version)

    def is_shadowed(self, org_id: str, template_id: str, version: int) -> bool:
        """Return whether an organisation has its own version with the number of a built-in one."""
        return all(version in self._versions.get((owner, template_id), {}) for owner in (org_id, BUILT_IN_ORG))

    def active_templates(self, org_id: str) -> Iterator[tuple[Template, ActiveVersion]]:
        """Yield the templates that an organisation can use, by id."""
        ids = sorted({id_ for owner, id_ in self._active if owner in (org_id, BUILT_IN_ORG)})
        for id_ in ids:
            template, choice = self.find_active_template(org_id, id_), self.active_version(org_id, id_)
            if template is not None and choice is not None:
                yield template, choice

    def extending_template_ids(self, org_id: str, template_id: str) -> list[str]:
        """Return the ids of an organisation's templates whose active or canary version extends this one."""
        found = []
        for template, choice in self.active_templates(org_id):
            canary = self.find_version(choice.org_id, template.id, choice.canary) if choice.canary else None
            if template_id in (template.extends, canary and canary.extends):
                found.append(template.id)
        return found
