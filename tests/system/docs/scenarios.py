"""What each page needs before its first block, and what stands for its placeholders."""

from tests.system.docs.reader import Scenario

# An organisation: Lead, and Ops below it. `as_agent ID COMMAND` runs a command as the agent of a workspace.
_TEAM = r"""
cat >"$HOME/team.toml" <<'END'
name = "Default"
[[seat]]
name = "Lead"
[[seat.seat]]
name = "Ops"
END
molecule org apply "$HOME/team.toml" --tokens-dir "$HOME/tokens" >"$HOME/applied"
id_of() { sed -n "s,.*tokens/\(.*\)[.]token,\1,p" "$HOME/applied" | sed -n "$1p"; }
export LEAD=$(id_of 1) OPS=$(id_of 2) PLATFORM_URL=http://127.0.0.1:8080 URL=http://127.0.0.1:8080
export OPERATOR_TOKEN=$(molecule admin token)
as_agent() { WORKSPACE_ID=$1 MOLECULE_WORKSPACE_TOKEN_FILE=$HOME/tokens/$1.token "${@:2}"; }
"""
# The terminals are those of Lead's agent.
_AS_LEAD = (
    _TEAM
    + r"""
export WORKSPACE_ID=$LEAD MOLECULE_WORKSPACE_TOKEN_FILE=$HOME/tokens/$LEAD.token
export TOKEN=$(cat "$HOME/tokens/$LEAD.token")
"""
)
_AS_OWNER = "unset WORKSPACE_ID MOLECULE_WORKSPACE_TOKEN_FILE\n"
# An agent for Ops answers each message.
_OPS_ANSWERS = r"""
WORKSPACE_ID=$OPS MOLECULE_WORKSPACE_TOKEN_FILE=$HOME/tokens/$OPS.token \
    molecule bridge command --shell 'echo "Two: the mail queue, and disk 3 of db2."' &
OPS_AGENT=$!
until as_agent $LEAD molecule peers | grep -q online; do :; done
"""
_OPS_IS_SILENT = r"""
kill $OPS_AGENT; wait $OPS_AGENT || true
as_agent $LEAD molecule delegate $OPS "List the open incidents." --async
"""
_IDENTITY = {
    "WORKSPACE_ID=… MOLECULE_WORKSPACE_TOKEN=…": "WORKSPACE_ID=$LEAD MOLECULE_WORKSPACE_TOKEN=$TOKEN",
    "WORKSPACE_ID=… MOLECULE_WORKSPACE_TOKEN_FILE=…": "WORKSPACE_ID=$LEAD",
}
_HERE = {"https://molecule.example": "http://127.0.0.1:8080"}
_NEWEST_APPROVAL = "APPROVAL=$(molecule approvals list | head -n 1 | cut -d ' ' -f 1)"
_A_PERSON_APPROVES = r"""
{
    until molecule approvals list | grep refund; do :; done
    id=$(molecule approvals list | grep refund | cut -d ' ' -f 1)
    hash=$(molecule approvals show $id --json | grep -o '"action_hash": *"[^"]*' | cut -d '"' -f 4)
    echo $id $hash >~/approved
    molecule approvals decide $id approve
} >~/person 2>&1 &
"""
_NEWEST_DELEGATION = "$(molecule delegations list | head -n 1 | cut -d ' ' -f 1)"
_NEWEST_THREAD = "$(molecule threads list --workspace $LEAD | head -n 1 | cut -d ' ' -f 1)"
_SERVER_AGAIN = 'molecule up &\nuntil curl -sf "$MOLECULE_URL/health"; do :; done\n'
_USERS_SERVER_AGAIN = _SERVER_AGAIN.replace(
    "molecule up", "sudo -u molecule /opt/molecule/bin/molecule up --state-dir /var/lib/molecule"
)

SCENARIOS: dict[str, Scenario] = {
    "README.md": Scenario(before="mkdir ~/my-project", is_served=False),
    "docs/tutorial/team-of-two.md": Scenario(is_served=False),
    "docs/how-to/agent-in-python.md": Scenario(before=_AS_LEAD, fill=_IDENTITY),
    "docs/how-to/agent-run.md": Scenario(before=_AS_LEAD),
    "docs/how-to/another-machine.md": Scenario(
        before=_TEAM,
        fill={**_HERE, "WORKSPACE_ID --own-token --apply": '$OPS --own-token --apply <"$HOME/tokens/$OPS.token"'},
    ),
    "docs/how-to/approvals.md": Scenario(
        before=_TEAM,
        fill={
            "LEAD_ID": "$LEAD",
            '"01a21cdb-…"': """"'$APPROVAL'\"""",
            "01a21cdb-…": "$APPROVAL",
            "APPROVAL_ID ACTION_HASH": "$APPROVAL $ACTION_HASH",
            **{
                f"molecule {each} ": f"as_agent $OPS molecule {each} "
                for each in ("tool", "approvals request", "approvals use")
            },
        },
        between={
            "molecule approvals list": _NEWEST_APPROVAL,
            "molecule approvals request": _A_PERSON_APPROVES,
            "molecule approvals use": "read -r APPROVAL ACTION_HASH <~/approved",
        },
    ),
    "docs/how-to/asgi-server.md": Scenario(fill={"/var/lib/molecule": "$HOME/asgi"}),
    "docs/how-to/backup-and-upgrade.md": Scenario(
        is_installed=True, between={"sudo -u molecule /opt/molecule/bin/molecule prune": _USERS_SERVER_AGAIN}
    ),
    "docs/how-to/behind-a-proxy.md": Scenario(),
    "docs/how-to/bridges.md": Scenario(
        before=_AS_LEAD + "printf '#!/bin/sh\\ncat\\n' >answer; chmod +x answer\n",
        after='until curl -s "$URL/workspaces/$OPS" -H "Authorization: Bearer $TOKEN" | grep -q online; do :; done',
    ),
    "docs/how-to/connect-a-host.md": Scenario(before="mkdir ~/my-project; cd ~/my-project"),
    "docs/how-to/delegations.md": Scenario(
        before=_AS_LEAD + _OPS_ANSWERS,
        fill={
            "delegate 01a21cdb-7e63-…": "delegate $OPS",
            "01a21cdc-02b8-…": _NEWEST_DELEGATION,
            '"target_id": "…"': '"target_id": "\'$OPS\'"',
        },
        between={"molecule delegations list --state open": _OPS_IS_SILENT + _AS_OWNER},
    ),
    "docs/how-to/demo.md": Scenario(is_served=False),
    "docs/how-to/files.md": Scenario(
        before=_AS_LEAD + "ID=$OPS; head -c 48213 /dev/zero >report.pdf; cp report.pdf plan.png\n"
    ),
    "docs/how-to/install.md": Scenario(is_installed=True),
    "docs/how-to/instructions.md": Scenario(before=_TEAM),
    "docs/how-to/measure-instructions.md": Scenario(
        before="molecule instructions show claude-code-default >new.json\n"
    ),
    "docs/how-to/metrics.md": Scenario(before="export MOLECULE_METRICS_TOKEN=$(molecule admin token)", fill=_HERE),
    "docs/how-to/organise.md": Scenario(files={"org.toml": "toml"}),
    "docs/how-to/people.md": Scenario(before="URL=http://127.0.0.1:8080 TOKEN=$(molecule admin token)"),
    "docs/how-to/web-connectors.md": Scenario(before=_TEAM, fill=_HERE),
    "docs/explanation/delivery.md": Scenario(),
    "docs/explanation/http-server.md": Scenario(),
    "docs/explanation/memory.md": Scenario(before=_AS_LEAD),
    "docs/explanation/outbound-requests.md": Scenario(),
    "docs/explanation/prompts.md": Scenario(before=_AS_LEAD + "cp -r examples/agent-run ~/agent; cd ~/agent\n"),
    "docs/explanation/threads.md": Scenario(
        before=_TEAM
        + "echo 'You keep the office.' >base\nmolecule threads start 'Hello' --base base --workspace $LEAD",
        fill={"--workspace ID": "--workspace $LEAD", "THREAD_ID": _NEWEST_THREAD},
    ),
    "docs/reference/mcp-endpoint.md": Scenario(
        before=_AS_LEAD + "export MOLECULE_WORKSPACE_TOKEN=$TOKEN\n", fill={**_HERE, ":20}": ":0}"}
    ),
}
