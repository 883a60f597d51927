#!/usr/bin/env bash
# The campaigns, again and again with new seeds, until the time is over or one fails.
#
#   campaign.sh SECONDS [LEDGER]
#
# Each run leaves a line in the ledger; without a name it is in a new directory that is kept.
# A package takes the flags that its tests have. Below ten minutes the sizes are those of
# every day; from three hours on the first round does what is exhaustive too, such as every
# bit of every file. When the time is over, the run of a package that is on is stopped.
set -uo pipefail
limit=${1:?seconds}
case "${2:-}" in
  '') ledger=$(mktemp -d)/campaign.ledger ;;
  /*) ledger=$2 ;;
  *) ledger=$PWD/$2 ;;
esac
cd "$(dirname "$0")/../.." || exit 1
packages=(compat/proof compat/network server/internal/partition server/internal/seglog)
sizes=()
[ "$limit" -lt 600 ] || sizes=(kills=200 fills=20 rebinds=300 restarts=20 crashes=10000 states=20000)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for pkg in "${packages[@]}"; do
  bin=$work/$(basename "$pkg").test
  go test -c -o "$bin" "./$pkg" || exit 1
  "$bin" -h >"$bin.flags" 2>&1
done

has() { # has BINARY FLAG
  grep -Eq -- "^  -$2( |\$)" "$1.flags"
}

run() { # run PACKAGE SEED ROUND
  local bin args=(-test.timeout 3h -test.failfast -test.skip '^TestPlantedBugsAreCaught$') size
  bin=$work/$(basename "$1").test
  ! has "$bin" ledger || args+=(-ledger "$ledger")
  ! has "$bin" seed || args+=(-seed "$2")
  for size in ${sizes[@]+"${sizes[@]}"}; do
    ! has "$bin" "${size%=*}" || args+=("-$size")
  done
  # What is exhaustive is not different with another seed: the first round does it.
  [ "$3" -gt 1 ] || [ "$limit" -lt 10800 ] || ! has "$bin" full || args+=(-full)
  printf '%6d s  %s %s\n' "$SECONDS" "$1" "${args[*]}"
  (cd "$1" && timeout --kill-after 10 $((limit > SECONDS ? limit - SECONDS : 1)) "$bin" "${args[@]}") >"$work/out" 2>&1
  case $? in
    0) return ;;
    124 | 137) ! grep -Eq -- '--- FAIL|^panic:|DATA RACE' "$work/out" && printf '%6d s  the time is over\n' "$SECONDS" && return ;;
  esac
  cp "$work/out" "$ledger.failed"
  tail -n 60 "$work/out"
  printf 'FAILED: %s with seed %s; all that it said: %s\n' "$1" "$2" "$ledger.failed"
  return 1
}

first=$(date +%s)
SECONDS=0 # without the time to build, and without what make passes on
printf 'ledger: %s\n' "$ledger"
for ((round = 1; SECONDS < limit; round++)); do
  for pkg in "${packages[@]}"; do
    ((SECONDS < limit)) || break
    run "$pkg" $((first + round)) "$round" || exit 1
  done
done
printf '%d s, nothing found, ledger: %s\n' "$SECONDS" "$ledger"
