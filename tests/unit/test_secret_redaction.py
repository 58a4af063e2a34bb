"""Secrets in what is kept: those of many makers are taken out, ordinary text stays letter by letter."""

import base64
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_core.common import logs
from molecule_core.common.secret_redaction import REDACTED, VENDOR_PATTERNS, redact_secrets
from molecule_core.common.tokens import ADMIN_PREFIX, PERSON_PREFIX, WORKSPACE_PREFIX, new_token
from testing.clocks import SeededRandomness
from testing.step_counts import examples
from tests.requirements import requirement

_chance = random.Random(7)
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def made(count: int, alphabet: str = _LETTERS) -> str:
    """So many characters, made as keys are; never one that was issued, and never the same for a scanner of code."""
    return "".join(_chance.choices(alphabet, k=count - 2)) + "7a"[: min(2, count)]


def hexed(count: int) -> str:
    return made(count, "0123456789abcdef")


def upper(count: int) -> str:
    return "".join(_chance.choices("ABCDEFGHJKLMNPQRSTUVWXYZ234567", k=count))


def jwt() -> str:
    parts = (base64.urlsafe_b64encode(each).decode().rstrip("=") for each in (b'{"alg":"HS256"}', b'{"sub":"1234"}'))
    return ".".join((*parts, made(43)))


EXAMPLES = {
    "Molecule": [new_token(each, SeededRandomness(3)) for each in (WORKSPACE_PREFIX, PERSON_PREFIX, ADMIN_PREFIX)],
    "Anthropic, OpenAI and others": [
        f"sk-ant-api03-{made(90)}",
        f"sk-proj-{made(60)}",
        f"sk-{made(48)}",
        f"sk-or-v1-{hexed(64)}",
    ],
    "AWS key id": [f"AKIA{upper(16)}", f"ASIA{upper(16)}"],
    "Age": [f"AGE-SECRET-KEY-1{upper(58)}"],
    "Airtable": [f"pat{made(14)}.{hexed(64)}"],
    "Atlassian": [f"ATATT3xFfGF0{made(180)}"],
    "Databricks": [f"dapi{hexed(32)}", f"dapi{hexed(32)}-2"],
    "DigitalOcean": [f"dop_v1_{hexed(64)}"],
    "Discord": [f"MTA{made(21)}.{made(6)}.{made(38)}"],
    "Docker": [f"dckr_pat_{made(27)}"],
    "Doppler": [f"dp.pt.{made(43)}"],
    "Figma": [f"figd_{made(40)}"],
    "GitHub": [
        *(f"{each}_{made(36)}" for each in ("ghp", "gho", "ghu", "ghs", "ghr")),
        f"github_pat_{made(22)}_{made(59)}",
    ],
    "GitLab": [f"glpat-{made(20)}", f"glrt-{made(20)}"],
    "Google": [f"AIza{made(35)}", f"ya29.{made(120)}", f"GOCSPX-{made(28)}", f"1//0{made(60)}"],
    "Grafana": [f"glsa_{made(32)}_{hexed(8)}", f"glc_{made(60)}"],
    "Groq, xAI, Perplexity": [f"gsk_{made(52)}", f"xai-{made(80)}", f"pplx-{made(48)}"],
    "Hugging Face": [f"hf_{made(34)}"],
    "JSON Web Token": [jwt()],
    "Linear": [f"lin_api_{made(40)}"],
    "Mailchimp": [f"{hexed(32)}-us12"],
    "Mailgun": [f"key-{hexed(32)}"],
    "New Relic": [f"NRAK-{upper(27)}"],
    "Notion": [f"secret_{made(43)}", f"ntn_{made(46)}"],
    "npm": [f"npm_{made(36)}"],
    "Postman": [f"PMAK-{hexed(24)}-{hexed(34)}"],
    "PyPI": [f"pypi-AgEIcHlwaS5vcmc{made(60)}"],
    "Replicate": [f"r8_{made(37)}"],
    "SendGrid": [f"SG.{made(22)}.{made(43)}"],
    "Sentry": [f"sntrys_{made(60)}"],
    "Shopify": [f"shpat_{hexed(32)}"],
    "Slack": [f"xoxb-{_chance.randrange(10**11)}-{made(24)}", f"xapp-1-A012-{made(30)}"],
    "Square": [f"EAAA{made(60)}", f"sq0csp-{made(43)}"],
    "Stripe": [f"{kind}_{made(24)}" for kind in ("sk_live", "sk_test", "rk_live", "whsec")],
    "Supabase": [f"sbp_{hexed(40)}"],
    "Tailscale": [f"tskey-auth-{made(17)}-{made(32)}"],
    "Telegram": [f"{_chance.randrange(10**8, 10**9)}:AA{made(33)}"],
    "Twilio": [f"SK{hexed(32)}"],
    "Vault": [f"hvs.{made(90)}"],
}
FRAMES = [
    "%s",
    "the key is %s.",
    "(%s)",
    "KEY=%s\nnext",
    '{"a": "%s", "b": 1}',
    "export A='%s'",
    "%s, and then",
    "`%s`",
    "key:%s",
]


@requirement("M36", "O3")
@pytest.mark.parametrize("maker", VENDOR_PATTERNS)
@pytest.mark.parametrize("frame", FRAMES)
def test_a_key_is_known_by_the_mark_of_its_maker_wherever_it_stands(maker: str, frame: str) -> None:
    for key in EXAMPLES[maker]:
        text, count = redact_secrets(frame.replace("%s", key))
        assert (text, count) == (frame.replace("%s", REDACTED), 1), key


@requirement("M36")
def test_every_maker_of_the_table_has_an_example() -> None:
    assert EXAMPLES.keys() == VENDOR_PATTERNS.keys()


KEY = base64.b64encode(random.Random(5).randbytes(600)).decode()
# What is kept of each, with `%` in the place of the secret.
WRITTEN = [
    f"-----BEGIN RSA PRIVATE KEY-----\n{KEY}\n-----END RSA PRIVATE KEY-----",
    f"-----BEGIN OPENSSH PRIVATE KEY-----\n{KEY}",
    f"-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n{KEY}\n-----END PGP PRIVATE KEY BLOCK-----",
]
HIDDEN = [
    ("password=%", "hunter22"),
    ("Password: %", "correcthorse"),
    ("Passwort ist egal, aber DB_PASSWORD='%'", "my long pass 1"),
    ("my password is %!", "hunter22"),
    ("(password: %)", "hunter22"),
    ("passphrase: %", "Tr0ub4dor&3"),
    ("pwd := %, next", "s3cret!!"),
    ("OPENAI_API_KEY=%", "abcdef0123456789"),
    ('{"api_key": "%"}', "abcdefghijkl"),
    ("client_secret: '%'", "abcdefghijkl"),
    ("stripeSecretKey = %", "abc123def"),
    ("export AWS_SECRET_ACCESS_KEY=%", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
    ("AccountKey=%;EndpointSuffix=core", "Zm9vYmFyYmF6cXV1eA12=="),
    ("Authorization: Basic %", "dXNlcjpwYXNzd29yZA=="),
    ("authorization: bearer %, and", "opaque-opaque-opaque"),
    ("curl -H 'Authorization: token %'", "abcdefabcdef"),
    ("use Bearer % there", "abcdef0123456789abcdef"),
    ("Cookie: %", "session=abc; theme=dark"),
    ("Set-Cookie: %", "id=abc; HttpOnly"),
    ("postgresql://%@db.example.org/app", "app:p4ss"),
    ("https://%@git.example.org/x.git", "user:token"),
    ("https://hooks.slack.com/services/%", "T000/B000/XXXXXXXX"),
    ("post to https://discord.com/api/webhooks/% please", "123/abc-def"),
    ("the token was % before", "a1b2c3d4e5"),
]


@requirement("M36", "O3")
@pytest.mark.parametrize("text", WRITTEN)
def test_a_private_key_is_taken_out_whole_also_if_its_end_is_missing(text: str) -> None:
    found, count = redact_secrets(f"before\n{text}")
    assert (found, count) == (f"before\n{REDACTED}", 1)


@requirement("M36", "O3")
@pytest.mark.parametrize(("frame", "secret"), HIDDEN)
def test_what_is_named_a_secret_loses_its_value_and_nothing_else(frame: str, secret: str) -> None:
    for before, after in (("", ""), ("First this.\n", "\nThen that: nothing."), ("(", "\n)")):
        text = before + frame + after
        assert redact_secrets(text.replace("%", secret)) == (text.replace("%", REDACTED), 1)


ORDINARY = [
    "Reset your password: click on the link in the mail.",
    "Password: required",
    "The password is the name of the user, said the manual.",
    "password: <your password>, token: $TOKEN, secret: ${SECRET}, api_key: ********",
    "The secret: everything is text.",
    "The token is the unit by which models are billed: 128000 tokens per minute.",
    "The access token: expires in 3600 s, see https://docs.example.org/tokens#access",
    "token: https://docs.example.org/tokens",
    "Favourite cookie: chocolate chip. Cookies: none.",
    "He is a bearer of bad news, and bearer bonds are gone.",
    "git commit 6411ce7dad8045d22f8267cf0cdae2f6a551f048 broke the build",
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "workspace 019c1f0e-7a4b-7c3d-8e5f-0123456789ab, activity 01a3185c-5000-7fb8-8ef1-52125425b7b3",
    "https://example.org:8080/path?page=2&sort=name#top and http://[::1]:8080/",
    "mail ops@example.org or call +49 30 123456; the IBAN is DE89 3704 0044 0532 0130 00",
    "sk-learn-compatible-estimators-and-their-tests; sk-SK is a locale; task-force-of-people",
    "key: value; keys: 12; keyboard: 105; the key to success: hard work",
    "Der Token: Montag 12:30. Das Geheimnis: Geduld. Schlüssel: unter der Matte.",
    "ghp, xoxb, AKIA and hf_ are prefixes; eyJ begins a JWT; -----BEGIN CERTIFICATE----- begins none of them",
    "SELECT password FROM users WHERE name = 'x'; -- def password(self) -> str: ...",
    "if token is None: raise; token = next(tokens); secret = load(); password = getpass()",
    "Credentials: ask Ada. Credential rotation: monthly. Passcode: 12",
    "日本語のテキスト、パスワードは秘密です。 Пароль: спросите Аду.",
    "x = [redacted]; password: [redacted]",
    "",
    " \n\t ",
]


@requirement("M36")
@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert redact_secrets(text) == (text, 0)


@requirement("M36", "O3")
def test_a_secret_that_the_operator_chose_is_taken_out_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_registered_secrets", {"the operators own words"})
    assert redact_secrets("say the operators own words twice: the operators own words") == (
        f"say {REDACTED} twice: {REDACTED}",
        2,
    )


@requirement("M36")
@given(text=st.text(max_size=300))
@examples(300)
def test_what_was_redacted_is_not_redacted_again(text: str) -> None:
    once, _ = redact_secrets(text)
    assert redact_secrets(once) == (once, 0)


LONG = ["a", " ", "a_", "_-", "password ", "token: ", "sk-a-", "-----BEGIN ", "-----BEGIN A PRIVATE KEY-----"]
LONG += ["eyJaaaaaaaa.", "eyJaaaaaaaa-", "://a:", "is ", "=", "'", "A1b2_-.", "SG.aaaaaaaaaaaaaaaaaa-", "token is a1"]


@requirement("M36", "S14")
@pytest.mark.parametrize("piece", LONG)
def test_no_text_makes_it_work_long(piece: str) -> None:
    """Longer than any memory may be. A pattern that tried everything would hang the test run for minutes."""
    text = (piece * 20_000)[:20_000]
    once, _ = redact_secrets(text)
    assert len(once) <= 20 * len(text)
