#!/bin/sh
# scripts/check.sh [FILE..]: format, tidy, layers, build, tests, in this order. With files, format and tidy look at these
# alone. Brings clang-format and clang-tidy as scripts/setup does.
set -eu
root=$(dirname -- "$(dirname -- "$(readlink -f -- "$0")")")
sources=$*
cd -- "$root"
[ -n "$sources" ] || sources=$(git ls-files '*.h' '*.cpp' '*.inc' '*.cu')
compiled=$(printf '%s\n' $sources | grep -E '^(workloads|strategies|harness)/.*\.(cpp|cu)$' || true)

scripts/setup clang-format-19 clang-tidy-19

echo '== format'
# shellcheck disable=SC2086  # names without spaces
clang-format-19 --dry-run -Werror $sources

echo '== layers'
scripts/layers.py

echo '== tidy'
# g++'s precompiled header is none of clang's.
cmake -B build/tidy --preset release -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON -DDPBENCH_TESTS=OFF >/dev/null
printf '%s\n' $compiled | xargs -r -n 1 -P "$(nproc)" clang-tidy-19 -p build/tidy --quiet

echo '== build and tests'
scripts/test
