#!/bin/sh
# scripts/check.sh [FILE..]: runs the static checks: format, layers of includes, plug-in headers compiled one by one,
# clang-tidy, and ruff's errors in Python files. clang-tidy checks the sources in workloads/, strategies/ and harness/,
# not tests/. It leaves out four slow units, which scripts/parts/tidy checks: dp_upstream.cpp, gloo.cpp, the worker's
# main.cpp and the CUDA library. Given files, format and clang-tidy check only those. scripts/test runs this first, with
# DPBENCH_CASES set to the day's number: clang-tidy then checks a sixth of the units, another sixth each day, and half of
# the plug-in headers are compiled, the other half the next day.
set -eu
cd -- "$(dirname -- "$(readlink -f -- "$0")")/.."
scripts/build tidy build/tidy dpbench_commit
format=$(scripts/find-tool clang-format)
tidy=$(scripts/find-tool clang-tidy)
failed=
part() {
  name=$1
  shift
  echo "-- $name"
  "$@" || failed="$failed $name"
}

check_format() {
  [ $# != 0 ] || set -- workloads strategies harness tests
  find "$@" -regex '.*\.\(h\|cpp\|cu\|inc\)' -print0 | xargs -0 "$format" --dry-run -Werror
}

# Prints the files for clang-tidy: source files, or CMake's unity files (each includes several sources).
units() {
  sed -n 's/^  "file": "\(.*\)",\?$/\1/p' build/tidy/compile_commands.json | while read -r unit; do
    case $#$unit in
      0*/dp_upstream.cpp | 0*/gloo.cpp | 0*/dpbench_cuda.dir/* | 0*/dpbench-worker.dir/*) ;;
      0*) echo "$unit" ;;
    esac
    for file; do
      if [ "$unit" = "$PWD/$file" ] || grep -qF "\"$PWD/$file\"" "$unit"; then echo "$unit"; fi
    done
  done | sort -u
}
run_tidy() {
  # The number of jobs depends on memory: checking one file that includes torch takes 1.5 GB.
  jobs=$(awk -v cores="$(nproc)" '/^MemAvailable:/ { jobs = int($2 / 2e6); print jobs < 1 ? 1 : jobs < cores ? jobs : cores }' /proc/meminfo)
  units "$@" >build/tidy/units
  if [ $# = 0 ] && [ "${DPBENCH_CASES:-all}" != all ]; then
    awk -v day="$DPBENCH_CASES" 'NR % 6 == day % 6' build/tidy/units >build/tidy/drawn
    mv build/tidy/drawn build/tidy/units
  fi
  [ $# != 0 ] || [ -s build/tidy/units ] || { echo 'build/tidy/compile_commands.json lists no files'; return 1; }
  xargs -r -n 1 -P "$jobs" "$tidy" -p build/tidy --quiet <build/tidy/units
}

check_headers() {
  halves='0 1'
  [ "${DPBENCH_CASES:-all}" = all ] || halves=$((DPBENCH_CASES % 2))
  for half in $halves; do
    scripts/build tidy build/tidy "api-headers-$half" || return 1
  done
}

# Finds mistakes in Python files: unused imports and variables, undefined names.
check_python() {
  find scripts strategies tests -type f -not -name '*.pyc' | while read -r file; do
    case $file in
      *.py) echo "$file" ;;
      *) if head -c 40 "$file" | grep -aq '^#!.*python'; then echo "$file"; fi ;;
    esac
  done | xargs "$(scripts/find-tool ruff)" check --isolated --quiet --select F,E9
}

part format check_format "$@"
part python check_python
part layers scripts/layers.py
part headers check_headers
part tidy run_tidy "$@"
[ -z "$failed" ] || { echo "check.sh: failed:$failed" >&2; exit 1; }
