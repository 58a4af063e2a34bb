-- Templates of instructions and their active versions.

-- name: all_templates
-- all versions of all templates
SELECT org_id, id, version, runtime, extends, parts, note, created_at, created_by FROM instruction_templates;

-- name: templates_by_id
-- all versions of the templates with an id, in all organisations
SELECT org_id, id, version, runtime, extends, parts, note, created_at, created_by FROM instruction_templates
WHERE id = :id;

-- name: all_template_choices
-- the active versions of all organisations
SELECT org_id, id, version, canary, percent, since, removed_at FROM instruction_choices;

-- name: template_choices_by_id
-- the active versions of the templates with an id, in all organisations
SELECT org_id, id, version, canary, percent, since, removed_at FROM instruction_choices WHERE id = :id;

-- name: insert_template
-- insert a version
-- mirrored: template by id
INSERT INTO instruction_templates (org_id, id, version, runtime, extends, parts, note, created_at, created_by)
VALUES (:org_id, :id, :version, :runtime, :extends, :parts, :note, :created_at, :created_by);

-- name: seed_template
-- insert a built-in version unless it exists
-- mirrored: template by id
INSERT INTO instruction_templates (org_id, id, version, runtime, extends, parts, note, created_at, created_by)
VALUES (:org_id, :id, :version, :runtime, :extends, :parts, :note, :created_at, :created_by)
ON CONFLICT (org_id, id, version) DO NOTHING;

-- name: choose_template
-- set the active version of a template, its canary and its removal
-- mirrored: template by id
INSERT INTO instruction_choices (org_id, id, version, canary, percent, since, removed_at)
VALUES (:org_id, :id, :version, :canary, :percent, :since, :removed_at)
ON CONFLICT (org_id, id) DO UPDATE SET
    version = excluded.version, canary = excluded.canary, percent = excluded.percent, since = excluded.since,
    removed_at = excluded.removed_at;

-- name: seed_template_choice
-- activate a built-in version unless a later one is active
-- mirrored: template by id
INSERT INTO instruction_choices (org_id, id, version, canary, percent, since, removed_at)
VALUES (:org_id, :id, :version, NULL, 0, :since, NULL)
ON CONFLICT (org_id, id) DO UPDATE SET version = excluded.version, since = excluded.since
WHERE instruction_choices.version < excluded.version;
