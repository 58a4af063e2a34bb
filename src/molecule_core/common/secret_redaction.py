"""Redacts secrets in stored text, and leaves ordinary text as it is.

`logs.py` redacts logs and may damage a sentence to be safe. Stored text is read again, so a word such as "password"
alone redacts nothing here: it must be followed by a value that looks chosen or generated.
"""

import re
from collections.abc import Callable

from molecule_core.common.logs import mask_registered_secrets

REDACTED = "[redacted]"

# Keys of well-known services, by the prefix that their maker uses. Name -> pattern; docs/explanation/memory.md lists
# the names, and a test checks each against an example.
VENDOR_PATTERNS = {
    "Molecule": r"mol_(?:ws|pt|ad|se|ln|in|ps|ru|oa|or|oc)_[A-Za-z0-9_-]{8,}",
    "Anthropic, OpenAI and others": r"sk-(?=[A-Za-z0-9_-]{0,120}\d)[A-Za-z0-9_-]{20,}",
    "AWS key id": r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}",
    "Age": r"AGE-SECRET-KEY-1[A-Z0-9]{20,}",
    "Airtable": r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}",
    "Atlassian": r"ATATT3[A-Za-z0-9_=-]{50,}",
    "Databricks": r"dapi[0-9a-f]{32}(?:-\d)?",
    "DigitalOcean": r"do[opr]_v1_[0-9a-f]{64}",
    "Discord": r"[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}",
    "Docker": r"dckr_(?:pat|oat)_[A-Za-z0-9_-]{20,}",
    "Doppler": r"dp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9_-]{30,}",
    "Figma": r"figd_[A-Za-z0-9_-]{30,}",
    "GitHub": r"(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,})",
    "GitLab": r"gl(?:pat|ptt|rt|dt|soat|cbt|ft)-[A-Za-z0-9_-]{20,}",
    "Google": r"(?:AIza[A-Za-z0-9_-]{35}|ya29\.[A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{20,}|1//0[A-Za-z0-9_-]{30,})",
    "Grafana": r"gl(?:sa|c)_[A-Za-z0-9+/=_]{30,}",
    "Groq, xAI, Perplexity": r"(?:gsk_|xai-|pplx-)[A-Za-z0-9]{30,}",
    "Hugging Face": r"hf_[A-Za-z0-9]{30,}",
    "JSON Web Token": r"eyJ[A-Za-z0-9_-]{8,999}\.eyJ[A-Za-z0-9_-]{8,4000}\.[A-Za-z0-9_-]{8,}",
    "Linear": r"lin_(?:api|oauth)_[A-Za-z0-9]{30,}",
    "Mailchimp": r"[0-9a-f]{32}-us\d{1,2}",
    "Mailgun": r"key-[0-9a-f]{32}",
    "New Relic": r"NRAK-[A-Z0-9]{27}",
    "Notion": r"(?:secret|ntn)_[A-Za-z0-9]{40,}",
    "npm": r"npm_[A-Za-z0-9]{36}",
    "Postman": r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}",
    "PyPI": r"pypi-AgE[A-Za-z0-9_-]{50,}",
    "Replicate": r"r8_[A-Za-z0-9]{37,}",
    "SendGrid": r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
    "Sentry": r"sntry[su]_[A-Za-z0-9+/=_]{30,}",
    "Shopify": r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}",
    "Slack": r"(?:xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-\d-[A-Za-z0-9-]{10,})",
    "Square": r"(?:EAAA[A-Za-z0-9_-]{60}|sq0(?:atp|csp)-[A-Za-z0-9_-]{22,})",
    "Stripe": r"(?:[rs]k_(?:live|test)|whsec)_[A-Za-z0-9]{16,}",
    "Supabase": r"sbp_[0-9a-f]{40}",
    "Tailscale": r"tskey-[a-z]+-[A-Za-z0-9-]{16,}",
    "Telegram": r"\d{8,10}:AA[A-Za-z0-9_-]{33}",
    "Twilio": r"SK[0-9a-f]{32}",
    "Vault": r"hv[bsr]\.[A-Za-z0-9_-]{20,}",
}
# Compiled by `re` on first use: most servers start without redacting anything.
_VENDOR_KEY = r"(?<![A-Za-z0-9])(?:" + "|".join(VENDOR_PATTERNS.values()) + r")(?![A-Za-z0-9])"
# The address of a webhook is its password.
_WEBHOOK = (
    r"(https://(?:hooks\.slack\.com/(?:services|workflows|triggers)|(?:\w+\.)?discord(?:app)?\.com/api/webhooks|"
    r"[\w.-]+\.webhook\.office\.com/webhookb2)/)[^\s\"'<>)\]]+"
)
_PRIVATE_KEY_BLOCK = r"(?s)-----BEGIN ([A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?)-----.*?(?:-----END \1-----|\Z)"
_URL_PASSWORD = r"([a-z][a-z0-9+.-]{1,20}://)[^\s/@:\"'<>]*:[^\s/@\"'<>]+@"
_AUTHORIZATION = (
    r"(?i)\b(authorization[\"']?\s*[:=]\s*[\"']?(?:basic|bearer|token|digest|apikey)\s+)[^\s\"',;]{6,}"
    r"|\b(bearer\s+)(?=[^\s\"',;]*\d)[A-Za-z0-9._~+/=-]{16,}"
)
_COOKIE = r"(?i)\b((?:set-)?cookie[\"']?\s*:\s*[\"']?)(?=[\w.-]+=)[^\r\n\"']+"
_SECRET_NAMES = (
    r"pass(?:word|wd|phrase|code)|pwd|secret(?:[ _-]?(?:access)?[ _-]?key)?|(?:private|api|access|account|auth|master|"
    r"encryption|signing|service|storage|shared|client)[ _-]?(?:access[ _-]?)?(?:key|token|secret)|token|credentials?"
)
# The name may be the end of a longer one: DB_PASSWORD, stripeSecretKey.
_SECRET_NAME = rf"({_SECRET_NAMES})"
# Without one of these there is no secret name, so the expensive patterns are skipped.
_SECRET_NAME_HINT = "(?i)pass|pwd|secret|key|token|credential"
_ASSIGNED = rf"(?i)({_SECRET_NAME}[\"'`]?\s*(:=|=>|=|:)[^\S\r\n]*)(?:([\"'`])([^\"'`\r\n]+)(?=[\"'`])|([^\s\"'`<>,;]+))"
# "The password is VALUE": only values that do not look like a word of a language.
_STATED = (
    rf"(?i)({_SECRET_NAME}(?:\s+is:?|\s+was:?)\s+[\"'`]?)"
    r"((?=[^\s\"'`,;]*\d)(?=[^\s\"'`,;]*[a-z])[^\s\"'`,;]{6,}[^\s\"'`,;.!?)])"
)
_MIN_LENGTH = 6
# Ends a sentence or a bracket, not a value.
_TRAILING_PUNCTUATION = ".?:)]}"
_PLACEHOLDER = (
    r"(?i)[\[<{(*$%].*|[x*.…-]+|(?:your|some)[-_ ]?\S*|change_?me\S*|example\S{0,6}|placeholder|https?://.*|[\w.]+\(.*"
)
# Words that describe a password and are none.
_DESCRIPTIVE_WORDS = frozenset(
    "required optional unchanged incorrect correct invalid missing expired hidden forgotten protected accepted "
    "rejected unknown disabled enabled changed rotated string secret password nothing stored encrypted hashed".split()
)


def redact_secrets(text: str) -> tuple[str, int]:
    """Replace each secret with `[redacted]`. Returns the text and the number of secrets."""
    count = 0

    def hide(pattern: str, replacement_for: Callable[[re.Match[str]], str]) -> None:
        nonlocal text, count

        def hidden(found: re.Match[str]) -> str:
            nonlocal count
            new = replacement_for(found)
            count += new != found[0]
            return new

        text = re.sub(pattern, hidden, text)

    known = text.count(REDACTED)
    text = mask_registered_secrets(text, REDACTED)
    count = text.count(REDACTED) - known
    hide(_PRIVATE_KEY_BLOCK, lambda _found: REDACTED)
    hide(_WEBHOOK, lambda found: found[1] + REDACTED)
    hide(_VENDOR_KEY, lambda _found: REDACTED)
    hide(_URL_PASSWORD, lambda found: f"{found[1]}{REDACTED}@")
    hide(_AUTHORIZATION, lambda found: (found[1] or found[2]) + REDACTED)
    hide(_COOKIE, lambda found: found[1] + REDACTED)
    if not re.search(_SECRET_NAME_HINT, text):
        return text, count
    hide(_ASSIGNED, lambda found: _redact_value(found) if _looks_like_secret(found) else found[0])
    hide(_STATED, lambda found: found[0] if re.fullmatch(_PLACEHOLDER, found[3]) else found[1] + REDACTED)
    return text, count


def _redact_value(found: re.Match[str]) -> str:
    bare = found[6] or ""
    return found[1] + (found[4] or "") + REDACTED + bare[len(bare.rstrip(_TRAILING_PUNCTUATION)) :]


def _looks_like_secret(found: re.Match[str]) -> bool:
    """Return whether an assigned value looks chosen or generated, and not like a word or a placeholder."""
    _, name, sign, quote, quoted, bare = found.groups()
    value = quoted or bare.rstrip(_TRAILING_PUNCTUATION)
    if len(value) < _MIN_LENGTH or re.fullmatch(_PLACEHOLDER, value) or value.lower() in _DESCRIPTIVE_WORDS:
        return False
    has_digit, has_letter = any(map(str.isdigit, value)), any(map(str.isalpha, value))
    if quote:
        return " " not in value or (has_digit and name.lower().startswith("p"))
    if has_digit:
        return True
    if any(not each.isalnum() and each not in "-_/.'’" for each in value) and has_letter:
        return True
    if len(value) >= 12 and any(map(str.isupper, value[1:])) and any(map(str.islower, value)):
        return True
    # `password: correcthorse` with nothing after it, but not `password: click on the link`.
    alone = not found.string[found.end() :].split("\n", 1)[0].strip()
    return alone and bare[-1] not in ".!?:" and (sign != ":" or name.lower().startswith(("pass", "pwd")))
