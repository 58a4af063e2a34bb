"""Between templates as the slice has them and as clients read and write them."""

import msgspec

from molecule_core.ground.clock import rfc3339
from molecule_core.instructions.model import DEFAULTS, Parts, Template
from molecule_core.wire.templates import TemplateParts, TemplateVersion


def version_view(template: Template) -> TemplateVersion:
    """A version as owners see it."""
    return TemplateVersion(
        id=template.id,
        version=template.version,
        runtime=template.runtime,
        extends=template.extends,
        parts=msgspec.convert(msgspec.to_builtins(template.parts), TemplateParts),
        note=template.note,
        created_at=rfc3339(template.created_at),
        created_by=template.created_by,
        built_in=template.org_id == DEFAULTS,
    )


def parts_of(said: TemplateParts) -> Parts:
    """What somebody wrote."""
    return msgspec.convert(msgspec.to_builtins(said), Parts)
