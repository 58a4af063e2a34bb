-- Templates of instructions, and which version of each is in force.

-- name: all_templates
-- every version of every template
SELECT org_id, id, version, runtime, extends, parts, note, created_at, created_by FROM instruction_templates;

-- name: templates_by_id
-- every version of the templates of one name, in all organisations
SELECT org_id, id, version, runtime, extends, parts, note, created_at, created_by FROM instruction_templates
WHERE id = :id;

-- name: all_template_choices
-- what every organisation has decided
SELECT org_id, id, version, canary, percent, since, removed_at FROM instruction_choices;

-- name: template_choices_by_id
-- what all organisations have decided about the templates of one name
SELECT org_id, id, version, canary, percent, since, removed_at FROM instruction_choices WHERE id = :id;

-- name: insert_template
-- a new version
-- mirrored: template by id
INSERT INTO instruction_templates (org_id, id, version, runtime, extends, parts, note, created_at, created_by)
VALUES (:org_id, :id, :version, :runtime, :extends, :parts, :note, :created_at, :created_by);

-- name: seed_template
-- a version that comes with Molecule; what is there stays as it is
-- mirrored: template by id
INSERT INTO instruction_templates (org_id, id, version, runtime, extends, parts, note, created_at, created_by)
VALUES (:org_id, :id, :version, :runtime, :extends, :parts, :note, :created_at, :created_by)
ON CONFLICT (org_id, id, version) DO NOTHING;

-- name: choose_template
-- which version of a template is in force, on trial, or that it is gone
-- mirrored: template by id
INSERT INTO instruction_choices (org_id, id, version, canary, percent, since, removed_at)
VALUES (:org_id, :id, :version, :canary, :percent, :since, :removed_at)
ON CONFLICT (org_id, id) DO UPDATE SET
    version = excluded.version, canary = excluded.canary, percent = excluded.percent, since = excluded.since,
    removed_at = excluded.removed_at;

-- name: seed_template_choice
-- a version that comes with Molecule is in force, unless a later one is
-- mirrored: template by id
INSERT INTO instruction_choices (org_id, id, version, canary, percent, since, removed_at)
VALUES (:org_id, :id, :version, NULL, 0, :since, NULL)
ON CONFLICT (org_id, id) DO UPDATE SET version = excluded.version, since = excluded.since
WHERE instruction_choices.version < excluded.version;
