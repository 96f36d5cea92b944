#!/bin/sh
# Usage: safe-worker.sh QUEUE COMMAND [ARGUMENT...]
#
# Handles the messages of a queue, oldest first; the command gets each on its standard input. A message is deleted when
# it has been handled, so nothing is lost when this stops half way. For one worker; with several, use 'brant run'.
set -eu
queue=$1
shift
tab=$(printf '\t')

while line=$(brant peek -t "$queue"); do
    printf '%s' "${line#*"$tab"}" | "$@" || exit
    brant delete -m "${line%%"$tab"*}" "$queue"
done
