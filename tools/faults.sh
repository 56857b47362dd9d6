#!/usr/bin/env bash
# usage: tools/faults.sh [ci|full]
# Kills and stops ranks and servers, loses frames, compares the parameters of all ranks, ends programs in the middle of their
# work, lets allocations fail, and checks the memory of programs that repeat their work.
# "ci" takes two minutes, or more if other programs run. "full" repeats everything as often as for the published figures (about
# an hour) and writes the figures to tests/faults/results.
set -uo pipefail
cd "$(dirname "$0")/.."
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
case "${1:-}" in
  ci) lost=2 stop=1 steps=500 lossy=1 frames=2000 kills=1 exits=40 allocations="--step 150"
    slopes="--cycles 600 --program export_import --program record_iterators" ;;
  "") lost=10 stop=5 steps=5000 lossy=5 frames=5000 kills=5 exits=200 allocations="--step 20" slopes="--cycles 500" ;;
  full) lost=100 stop=50 steps=100000 lossy=50 frames=100000 kills=50 exits=2000 allocations= slopes= results=tests/faults/results ; trap - EXIT ;;
  *) echo "usage: tools/faults.sh [ci|full]" >&2; exit 2 ;;
esac
status=0
fault() { printf '\n--- %s\n' "$*"; python "tests/faults/$1.py" "${@:2}" || { status=1; echo "FAILED: $1" >&2; }; }
fault kill_saver $((20 * lost))
fault lost_ranks kill --runs $lost --json "$results/kill.json"
fault lost_ranks stop --runs $stop --timeout 2 --json "$results/stop.json"
fault lost_ranks kill --job tensor --runs $stop --json "$results/kill_tensor.json"
fault lost_ranks stop --job tensor --runs $stop --timeout 2 --json "$results/stop_tensor.json"
fault soak -np 2 --steps $steps --json "$results/soak_2_ranks.json"
fault soak -np 4 --steps $steps --json "$results/soak_4_ranks.json"
fault server_faults lossy --runs $lossy --json "$results/server_lossy.json"
fault server_faults fuzz --frames $frames --json "$results/server_fuzz.json"
fault elastic --kills $kills --json "$results/elastic.json"
fault exits --runs $exits --json "$results/exits.json"
# shellcheck disable=SC2086  # the options are words
fault out_of_memory $allocations --json "$results/out_of_memory.json"
# shellcheck disable=SC2086
fault slopes $slopes --json "$results/slopes.json"
exit $status
