#!/bin/sh
# Usage: remote.sh HOST DIRECTORY QUEUE
#
# Hands the messages of a queue on to the queue of that name on another machine, in the database of that directory. Each
# is deleted here when it is there; when the connection breaks in between, it may be there twice, but it is never lost.
set -eu
host=$1 directory=$2 queue=$3
tab=$(printf '\t')

while line=$(brant peek -t "$queue"); do
    printf '%s' "${line#*"$tab"}" | ssh "$host" "brant -d '$directory' write '$queue'" || exit
    brant delete -m "${line%%"$tab"*}" "$queue"
done
