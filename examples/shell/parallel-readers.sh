#!/bin/sh
# Usage: parallel-readers.sh READERS QUEUE
#
# Empties a queue with several readers at once: each message goes to exactly one of them.
set -eu
readers=$1 queue=$2

while [ "$readers" -gt 0 ]; do
    while brant read "$queue"; do :; done &
    readers=$((readers - 1))
done
wait
