#!/usr/bin/env bash
# clang-format, layering, one definition a name and shell syntax over our code; with --tidy also clang-tidy (about 15 s a file, so not in CI).
#   scripts/lint.sh [--tidy [BUILD_FOLDER]]
set -euo pipefail
cd "$(dirname "$0")/.."

mapfile -t sources < <(git ls-files '*.cpp' '*.hpp')
clang-format-14 --dry-run --Werror "${sources[@]}"
bash scripts/check-layers.sh
python3 scripts/check-one-definition.py
for script in scripts/*.sh .ci/run; do bash -n "$script"; done
[ "${1:-}" = --tidy ] || exit 0
build=${2:-build}

# Parsing dominates clang-tidy's time, so files unchanged since they last passed are skipped (keyed by the
# preprocessed content, which covers headers and options).
cache=${LATHE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/lathe}/tidy
mkdir -p "$cache"
export build cache
tidy_one() {
  local key
  key=$({ cat .clang-tidy; ccache_command "$1"; } | sha256sum | cut -c1-32)
  [ -e "$cache/$key" ] && return 0
  clang-tidy-14 -p "$build" --quiet --extra-arg=-Wno-unknown-warning-option "$1" 2>/dev/null || { echo "clang-tidy: $1"; return 1; }
  touch "$cache/$key"
}
ccache_command() {
  # The compile command of the file, with -E in place of -c, run where the database says.
  python3 - "$build/compile_commands.json" "$1" <<'PY'
import json, os, shlex, subprocess, sys
wanted = os.path.realpath(sys.argv[2])
for entry in json.load(open(sys.argv[1])):
    if os.path.realpath(os.path.join(entry["directory"], entry["file"])) == wanted:
        words = [w for w in shlex.split(entry["command"]) if not w.endswith("ccache")]
        words[words.index("-c")] = "-E"
        words[words.index("-o") + 1] = "-"
        sys.stdout.buffer.write(subprocess.run(words, cwd=entry["directory"], capture_output=True, check=True).stdout)
        break
PY
}
export -f tidy_one ccache_command
python3 - "$build/compile_commands.json" <<'PY' | xargs -d '\n' -P "$(nproc)" -I{} bash -c 'tidy_one {}'
import json, os, sys
here = os.getcwd()
files = {os.path.relpath(os.path.join(e["directory"], e["file"]), here) for e in json.load(open(sys.argv[1]))}
print("\n".join(sorted(f for f in files if f.startswith("src/"))))
PY
