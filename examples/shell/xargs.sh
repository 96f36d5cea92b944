#!/bin/sh
# Usage: xargs.sh QUEUE COMMAND [ARGUMENT...]
#
# Runs the command for each message, four at a time, with the message as its last argument.
set -eu
queue=$1
shift

brant read --all "$queue" | tr '\n' '\0' | xargs -0 -r -n 1 -P 4 "$@"
