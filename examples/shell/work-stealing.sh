#!/bin/sh
# Usage: work-stealing.sh MINE THEIRS COMMAND [ARGUMENT...]
#
# A worker that helps out: when its own queue is empty, it moves a message over from the other one. A message is in one
# queue at any time, so two workers that steal from each other never do the same work.
set -eu
mine=$1 theirs=$2
shift 2

next() {
    until brant read "$mine"; do
        brant move "$theirs" "$mine" >/dev/null || return
    done
}
while message=$(next); do
    printf '%s' "$message" | "$@"
done
