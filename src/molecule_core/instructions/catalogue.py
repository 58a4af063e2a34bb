"""All templates in memory, so that none costs a query. Filled from the store at start; changed by the writer after its
commit, and by the reader's mirror where several processes share one store."""

from collections.abc import Iterable, Iterator

from molecule_core.instructions.model import BUILT_IN_ORG, ActiveVersion, Template, TemplateVersionRef


class TemplateCatalogue:
    """Every version of every template, and which one is in force. `changes` counts what was put in."""

    def __init__(self) -> None:
        self._versions: dict[tuple[str, str], dict[int, Template]] = {}
        self._active: dict[tuple[str, str], ActiveVersion] = {}
        self.change_count = 0

    def put_versions(self, templates: Iterable[Template], active_versions: Iterable[ActiveVersion]) -> None:
        """New versions, and what is in force now."""
        for template in templates:
            self._versions.setdefault((template.org_id, template.id), {})[template.version] = template
        for each in active_versions:
            self._active[each.org_id, each.id] = each
        self.change_count += 1

    def with_candidate(self, template: Template) -> "TemplateCatalogue":
        """The same with one more version, which is in force."""
        other = TemplateCatalogue()
        other._versions = {name: dict(versions) for name, versions in self._versions.items()}
        other._active = dict(self._active)
        other.put_versions(
            [template], [ActiveVersion(template.org_id, template.id, template.version, None, 0, template.created_at)]
        )
        return other

    def active_version(self, org_id: str, template_id: str) -> ActiveVersion | None:
        """What an organisation has decided about a template, or else what comes with Molecule; None: there is no such
        template."""
        for owner in (org_id, BUILT_IN_ORG):
            found = self._active.get((owner, template_id))
            if found is not None and found.removed_at is None:
                return found
        return None

    def own_active_version(self, org_id: str, template_id: str) -> ActiveVersion | None:
        """What an organisation has decided, also if it was taken back."""
        return self._active.get((org_id, template_id))

    def find_active_template(self, org_id: str, template_id: str) -> Template | None:
        """The version in force of a template, as an organisation sees it."""
        choice = self.active_version(org_id, template_id)
        return None if choice is None else self.find_version(choice.org_id, template_id, choice.version)

    def find_version(self, org_id: str, template_id: str, version: int) -> Template | None:
        """One version, as an organisation sees it: its own, or else Molecule's. What is in force is looked up with the
        `org_id` of the decision, so that a version of an organisation never answers for one of Molecule's."""
        for owner in (org_id, BUILT_IN_ORG):
            found = self._versions.get((owner, template_id), {}).get(version)
            if found is not None:
                return found
        return None

    def find_by_ref(self, choice: TemplateVersionRef) -> Template | None:
        """The version that a choice names."""
        return self._versions.get((choice.org_id, choice.template_id), {}).get(choice.version)

    def list_versions(self, org_id: str, template_id: str) -> list[Template]:
        """All versions that an organisation can go back to, newest first: its own, and those of Molecule. A number may
        come twice, first its own: Molecule's goes on where an organisation's has gone on too."""
        owners = (org_id, BUILT_IN_ORG) if org_id != BUILT_IN_ORG else (BUILT_IN_ORG,)
        all_versions = [each for owner in owners for each in self._versions.get((owner, template_id), {}).values()]
        return sorted(all_versions, key=lambda each: -each.version)

    def is_shadowed(self, org_id: str, template_id: str, version: int) -> bool:
        """Whether an organisation has a version of its own with the number of one of Molecule's."""
        return all(version in self._versions.get((owner, template_id), {}) for owner in (org_id, BUILT_IN_ORG))

    def active_templates(self, org_id: str) -> Iterator[tuple[Template, ActiveVersion]]:
        """The templates that an organisation may use, by their ids."""
        ids = sorted({id_ for owner, id_ in self._active if owner in (org_id, BUILT_IN_ORG)})
        for id_ in ids:
            template, choice = self.find_active_template(org_id, id_), self.active_version(org_id, id_)
            if template is not None and choice is not None:
                yield template, choice

    def extending_template_ids(self, org_id: str, template_id: str) -> list[str]:
        """The ids of the templates of an organisation whose version in force, or on trial, extends this one."""
        found = []
        for template, choice in self.active_templates(org_id):
            canary = self.find_version(choice.org_id, template.id, choice.canary) if choice.canary else None
            if template_id in (template.extends, canary and canary.extends):
                found.append(template.id)
        return found
