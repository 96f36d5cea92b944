#!/bin/sh
# Usage: dead-letters.sh QUEUE COMMAND [ARGUMENT...]
#
# A worker that puts what fails aside, with its id, and goes on. To try that again: brant move --all QUEUE-failed QUEUE
set -eu
queue=$1
shift
tab=$(printf '\t')

while line=$(brant peek -t "$queue"); do
    id=${line%%"$tab"*}
    if printf '%s' "${line#*"$tab"}" | "$@"; then
        brant delete -m "$id" "$queue"
    else
        brant move -m "$id" "$queue" "$queue-failed" >/dev/null
    fi
done
