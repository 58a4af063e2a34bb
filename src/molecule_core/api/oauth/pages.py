"""HTML of the pages that people see when an app asks for access: no script, and nothing of the app is markup."""

import base64
import hashlib
from html import escape
from urllib.parse import urlsplit

from msgspec import Struct

from molecule_core.access.oauth_rules import ACT_SCOPE, READ_SCOPE, is_loopback
from molecule_core.api.http.response import Response

CONSENT_PATH, LOGIN_PATH = "/oauth/consent", "/oauth/login"
_STYLE = """
:root { color-scheme: light dark; }
body { margin: 0; font: 16px/1.5 system-ui, sans-serif; background: Canvas; color: CanvasText; }
main { box-sizing: border-box; max-width: 32rem; margin: 0 auto; padding: 2rem 1rem; }
h1 { font-size: 1.375rem; line-height: 1.3; margin: 0 0 1rem; }
dl { margin: 0 0 1rem; }
dt, legend, label.field { font-weight: 600; }
dd { margin: 0 0 .5rem; overflow-wrap: anywhere; }
.note { border-left: 4px solid #b45309; padding: .25rem .75rem; }
.hint { opacity: .8; font-size: .875rem; }
fieldset { border: 0; margin: 0 0 1rem; padding: 0; }
.field { display: block; margin: 0 0 .25rem; }
fieldset label.field { font-weight: 400; }
legend { padding: 0; }
select, input[type=text] { box-sizing: border-box; width: 100%; font: inherit; padding: .5rem; margin: 0 0 1rem; }
button { font: inherit; padding: .5rem 1rem; margin: 0 .5rem .5rem 0; cursor: pointer; }
code { overflow-wrap: anywhere; }
""".strip()
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_HTML = b"text/html; charset=utf-8"


class WorkspaceOption(Struct, frozen=True):
    """A workspace that a person may connect an app to: its id and its path of names."""

    id: str
    label: str


class OrgChoices(Struct, frozen=True):
    """The workspaces of one organisation, and as whom the person is logged in there."""

    org_name: str
    person_name: str
    workspaces: list[WorkspaceOption]


class ConsentView(Struct, frozen=True):
    """What the page for consent shows."""

    client_name: str
    host: str
    """Host of the client's document; empty for a registered client."""
    redirect_uri: str
    orgs: list[OrgChoices]
    may_act: bool
    days: list[int]
    chosen_days: int
    encoded_request: str
    seal: str
    is_cut: bool
    """Whether there are more workspaces than the page lists."""


def consent_page(view: ConsentView) -> Response:
    """Return the page on which a person chooses a workspace, and connects the app or not."""
    name, uri = escape(view.client_name), escape(view.redirect_uri)
    origin = (
        f"Its description comes from <strong>{escape(view.host)}</strong>. Molecule has not verified the name."
        if view.host
        else "The app chose this name. Molecule has not verified it."
    )
    local = (
        "<p class=note>The app runs on this computer. Connect it only if you have just started it.</p>"
        if is_loopback(view.redirect_uri)
        else ""
    )
    people = "".join(
        f"<dd><bdi>{escape(each.person_name)}</bdi> in <bdi>{escape(each.org_name)}</bdi></dd>" for each in view.orgs
    )
    permissions = [
        _radio("scope", READ_SCOPE, "Read only: messages, tasks, memory and peers", is_chosen=not view.may_act)
    ]
    if view.may_act:
        act = "Read and act: everything that the agent of the workspace can do"
        permissions.append(_radio("scope", ACT_SCOPE, act, is_chosen=True))
    days = "".join(
        f"<option value={each}{' selected' if each == view.chosen_days else ''}>{each} day{'' if each == 1 else 's'}"
        for each in view.days
    )
    cut = (
        "<p class=hint>There are more workspaces than this page lists. To connect another one, give the app the "
        "address <code>/workspaces/ID/mcp</code> of this server.</p>"
        if view.is_cut
        else ""
    )
    body = f"""<h1><bdi>{name}</bdi> asks for access to a workspace</h1>
<p class=note>{origin}</p>
<dl>
<dt>After your decision, this page leads to</dt><dd><code>{uri}</code></dd>
<dt>You are logged in as</dt>{people}
</dl>
{local}
<form method=post action="{CONSENT_PATH}">
<input type=hidden name=request value="{escape(view.encoded_request)}">
<input type=hidden name=seal value="{escape(view.seal)}">
<label class=field for=workspace>Workspace</label>
<select id=workspace name=workspace required>{_workspace_options(view.orgs)}</select>
{cut}
<fieldset><legend>The app may</legend>{"".join(permissions)}</fieldset>
<label class=field for=days>Access ends after</label>
<select id=days name=days>{days}</select>
<p class=hint>You can disconnect the app earlier: open the agent on the canvas, then Connected apps.</p>
<button name=decision value=connect>Connect</button>
<button name=decision value=cancel formnovalidate>Cancel</button>
</form>"""
    return _page("Connect an app", body, form_target=view.redirect_uri)


def _workspace_options(orgs: list[OrgChoices]) -> str:
    every = [each for org in orgs for each in org.workspaces]
    if len(every) == 1:
        return f'<option value="{escape(every[0].id)}" selected>{escape(every[0].label)}'
    groups = [
        f'<optgroup label="{escape(org.org_name)}">'
        + "".join(f'<option value="{escape(each.id)}">{escape(each.label)}' for each in org.workspaces)
        + "</optgroup>"
        for org in orgs
    ]
    return '<option value="" selected>Choose a workspace' + "".join(groups)


def _radio(name: str, value: str, label: str, *, is_chosen: bool) -> str:
    checked = " checked" if is_chosen else ""
    return f'<label class=field><input type=radio name={name} value="{value}"{checked}> {escape(label)}</label>'


def login_page(encoded_request: str, command: str, problem: str = "") -> Response:
    """Return the page on which a person logs in, and then continues with the request of the app."""
    note = f"<p class=note role=alert>{escape(problem)}</p>" if problem else ""
    body = f"""<h1>Log in to connect an app</h1>
{note}
<p>An app asks for access to a workspace. Log in first. Molecule has no passwords: you log in with a one-time link.
Run this command on the server, or ask an owner of your organisation for a link:</p>
<p><code>{escape(command)}</code></p>
<form method=post action="{LOGIN_PATH}">
<input type=hidden name=request value="{escape(encoded_request)}">
<label class=field for=link>Login link</label>
<input type=text id=link name=link required autocomplete=off spellcheck=false>
<button>Log in</button>
</form>
<p class=hint>If you have not started to connect an app, close this page.</p>"""
    return _page("Log in", body, status=400 if problem else 200)


def bounce_page(encoded_request: str) -> Response:
    """Return a page that leads to the one for consent.

    The browser does not send the session's cookie with a navigation from another site (SameSite=Strict). This page is
    ours, so the next navigation has it."""
    target = escape(f"{CONSENT_PATH}?{encoded_request}")
    body = f'<h1>Connect an app</h1><p><a href="{target}">Continue</a></p>'
    return _page("Connect an app", body, head=f'<meta http-equiv=refresh content="0; url={target}">')


def problem_page(problem: str, link: str = "", status: int = 400) -> Response:
    """Return a page that says what is wrong. `link` leads back to the app, if its address is known to be its own.

    The browser does not follow it by itself: else a made-up request would be a redirect to any address."""
    back = f'<p><a href="{escape(link)}" rel="noreferrer">Return to the app</a></p>' if link else ""
    body = f"<h1>The app cannot be connected</h1><p>{escape(problem)}</p>{back}"
    return _page("The app cannot be connected", body, status=status)


def _page(title: str, body: str, *, head: str = "", status: int = 200, form_target: str = "") -> Response:
    # With no-referrer, browsers send "Origin: null" with the form, and the check of its origin would fail.
    text = f"""<!doctype html>
<html lang=en><meta charset=utf-8><meta name=viewport content="width=device-width">
<meta name=referrer content=same-origin>{head}
<title>{escape(title)} | Molecule</title><style>{_STYLE}</style>
<main>{body}</main></html>"""
    target = f" {_source_of(form_target)}" if form_target else ""
    policy = (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action 'self'{target}; base-uri 'none'; "
        "frame-ancestors 'none'"
    )
    headers = ((b"cache-control", b"no-store"), (b"x-frame-options", b"DENY"))
    return Response(
        text.encode(),
        status,
        headers=headers,
        content_type=_HTML,
        content_security_policy=policy.encode(),
        keeps_opener=True,
    )


def redirect_page(uri: str) -> Response:
    """Return the redirect to an app with the answer in its query."""
    headers = ((b"location", uri.encode()), (b"cache-control", b"no-store"))
    return Response(b"", 303, headers=headers, keeps_opener=True)


def _source_of(uri: str) -> str:
    """Return the source expression of a redirect address. A form's redirect is checked against the policy too."""
    parts = urlsplit(uri)
    is_web = parts.scheme in ("http", "https")
    # Source expressions have no form for an IPv6 address.
    return f"{parts.scheme}://{parts.netloc}" if is_web and "[" not in parts.netloc else f"{parts.scheme}:"
