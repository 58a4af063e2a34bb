#!/bin/sh
# One message from a person to an agent and its answer, with curl.
#
#   scripts/up                 in one terminal
#   sh examples/walk.sh        in another
#
# MOLECULE_URL and MOLECULE_STATE_DIR choose another server. Tokens are kept in files of this user (mode 0600), since
# other users can read the arguments of a process.
set -eu
url=${MOLECULE_URL:-http://127.0.0.1:8080}
molecule=${MOLECULE:-"$(dirname "$0")/../.venv/bin/molecule"}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 077

step() { printf '\n-- %s\n' "$*"; }
as() { credential=$1; shift; curl -sS -K "$work/$credential" -H 'content-type: application/json' "$@"; echo; }
field() { grep -o "\"$1\":\"[^\"]*\"" | head -n 1 | cut -d '"' -f 4; }
keep() { printf 'header = "Authorization: Bearer %s"\n' "$2" > "$work/$1"; }

keep admin "$("$molecule" admin token)"

step "create a workspace"
as admin "$url/workspaces" -d '{"name":"Ops","runtime":"script"}' > "$work/workspace"
id=$(field id < "$work/workspace")
keep agent "$(field auth_token < "$work/workspace")"
echo "workspace $id"

step "the agent registers; it polls for messages"
as agent "$url/registry/register" -d "{\"id\":\"$id\",\"delivery_mode\":\"poll\",\"agent_card\":{\"name\":\"Ops\"}}"

step "the operator sends a message"
as admin "$url/workspaces/$id/a2a" -d '{"jsonrpc":"2.0","id":"1","method":"message/send","params":{"message":
    {"role":"user","messageId":"walk-'"$$"'","parts":[{"kind":"text","text":"hi"}]}}}'

step "the agent waits for messages, and claims this one for 60 seconds"
as agent "$url/workspaces/$id/activity?claim=60&wait=25" | tee "$work/claimed"
message=$(field id < "$work/claimed")

step "the agent answers, and acknowledges the message"
as agent "$url/workspaces/$id/notify" -d '{"message":"hello"}'
as agent "$url/workspaces/$id/activity/ack" -d "{\"activity_id\":\"$message\",\"attempt\":1}"

step "the operator reads the chat"
as admin "$url/workspaces/$id/chat-history"
