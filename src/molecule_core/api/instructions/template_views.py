"""Converts templates between their stored form and the API's."""

import msgspec

from molecule_core.common.clock import to_rfc3339
from molecule_core.instructions.model import BUILT_IN_ORG, Template, TemplateContent
from molecule_core.wire.schemas.templates import TemplateParts, TemplateVersion


def to_version_view(template: Template) -> TemplateVersion:
    """Convert a version to the form that owners see."""
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
    """Convert submitted parts to their stored form."""
    return msgspec.convert(msgspec.to_builtins(body_parts), TemplateContent)
