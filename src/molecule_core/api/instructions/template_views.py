"""Between templates as the slice has them and as clients read and write them."""

import msgspec

from molecule_core.common.clock import to_rfc3339
from molecule_core.instructions.model import BUILT_IN_ORG, Template, TemplateContent
from molecule_core.wire.schemas.templates import TemplateParts, TemplateVersion


def to_version_view(template: Template) -> TemplateVersion:
    """A version as owners see it."""
    return TemplateVersion(
        id=template.id,
        version=template.version,
        runtime=template.runtime,
        extends=template.extends,
        parts=msgspec.convert(msgspec.to_builtins(template.parts), TemplateParts),
        note=template.note,
        created_at=to_rfc3339(template.created_at),
        created_by=template.created_by,
        built_in=template.org_id == BUILT_IN_ORG,
    )


def to_template_parts(body_parts: TemplateParts) -> TemplateContent:
    """What somebody wrote."""
    return msgspec.convert(msgspec.to_builtins(body_parts), TemplateContent)
