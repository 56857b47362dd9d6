#!/usr/bin/env bash
# usage: tools/step.sh TITLE COMMAND...   runs the command under a heading and prints its duration
title=$1
shift
printf '\n=== %s\n' "$title"
begin=$SECONDS
"$@" </dev/null
status=$?
[ $status = 0 ] && verdict=done || verdict="FAILED (exit code $status)"
printf -- '--- %s: %s, %d s\n' "$title" "$verdict" $((SECONDS - begin))
exit $status
