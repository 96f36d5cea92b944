#!/bin/sh
# Usage: checkpoint.sh QUEUE STATE-FILE COMMAND [ARGUMENT...]
#
# Handles what was written since the last time and leaves it in the queue: any number of readers, each with a state file
# of its own, see every message. For messages of one line, and without priorities.
set -eu
queue=$1 state=$2
shift 2
tab=$(printf '\t')

last=$(cat "$state" 2>/dev/null || echo 0)
brant peek --all --after "$last" -t "$queue" | while IFS= read -r line; do
    printf '%s\n' "${line#*"$tab"}" | "$@" || exit
    echo "${line%%"$tab"*}" >"$state.new" && mv "$state.new" "$state"
done
