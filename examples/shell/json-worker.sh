#!/bin/sh
# Usage: json-worker.sh QUEUE COMMAND [ARGUMENT...]
#
# The safe worker for messages with any text in them, newlines at the end too. Ids have 16 digits, which jq keeps exact.
set -eu
queue=$1
shift
if ! command -v jq >/dev/null; then
    jq() { python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1][1:]], end="")' "$2"; }
fi

while line=$(brant peek --json "$queue"); do
    printf '%s' "$line" | jq -j .message | "$@" || exit
    brant delete -m "$(printf '%s' "$line" | jq -j .timestamp)" "$queue"
done
