#!/bin/sh
# A message goes in, an agent gets it, its answer comes out: the whole walk with curl.
#
#   scripts/up                 in one terminal
#   sh examples/walk.sh        in another
#
# MOLECULE_URL and MOLECULE_STATE_DIR choose another server. Tokens stay in files of this user (mode 0600): what stands
# among a process's arguments, others can read.
set -eu
url=${MOLECULE_URL:-http://127.0.0.1:8080}
molecule=${MOLECULE:-"$(dirname "$0")/../.venv/bin/molecule"}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 077

say() { printf '\n-- %s\n' "$*"; }
as() { credential=$1; shift; curl -sS -K "$work/$credential" -H 'content-type: application/json' "$@"; echo; }
field() { grep -o "\"$1\":\"[^\"]*\"" | head -n 1 | cut -d '"' -f 4; }
keep() { printf 'header = "Authorization: Bearer %s"\n' "$2" > "$work/$1"; }

keep admin "$("$molecule" admin token)"

say "make a seat"
as admin "$url/workspaces" -d '{"name":"Ops","runtime":"script"}' > "$work/seat"
id=$(field id < "$work/seat")
keep agent "$(field auth_token < "$work/seat")"
echo "workspace $id"

say "the agent takes it, and will poll"
as agent "$url/registry/register" -d "{\"id\":\"$id\",\"delivery_mode\":\"poll\",\"agent_card\":{\"name\":\"Ops\"}}"

say "the operator writes to it"
as admin "$url/workspaces/$id/a2a" -d '{"jsonrpc":"2.0","id":"1","method":"message/send","params":{"message":
    {"role":"user","messageId":"walk-'"$$"'","parts":[{"kind":"text","text":"hi"}]}}}'

say "the agent waits for mail, and gets it for sixty seconds"
as agent "$url/workspaces/$id/activity?claim=60&wait=25" | tee "$work/mail"
message=$(field id < "$work/mail")

say "it answers, and says that the message is handled"
as agent "$url/workspaces/$id/notify" -d '{"message":"hello yourself"}'
as agent "$url/workspaces/$id/activity/ack" -d "{\"activity_id\":\"$message\",\"attempt\":1}"

say "what the operator sees"
as admin "$url/workspaces/$id/chat-history"
