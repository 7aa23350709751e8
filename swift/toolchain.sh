#!/usr/bin/env bash
# Swift for this package on a Linux machine: the machine's own, or Debian's in a folder of its own, made once.
#
#   swift/toolchain.sh test                  # swift test of this package, quiet unless it fails
#   swift/toolchain.sh run swift build       # any command in the repository's root, where Package.swift is
#   swift/toolchain.sh make | remove         # the folder, where the machine has no Swift 6: one to four minutes, 2.6 GB
#
# KOKORO_SWIFT_ROOT names that folder (default: kokoro-swift in the user's cache), KOKORO_SWIFT_SUITE another Debian: sid. KOKORO_BUNDLE, KOKORO_BUNDLE_ONNX,
# KOKORO_BUNDLE_STREAMING and KOKORO_ONNXRUNTIME name what the tests read: a bundle of packages, one of ONNX files, one of the streaming
# layout's, and ONNX Runtime's library; each is seen inside
# under another path, read only. Debian comes from the mirror that this machine's apt uses. Making and using the folder needs root
# (chroot, mounts in a namespace of their own).
# exit: the command's own; 3: this machine can neither run Swift nor bring it, and one line on stderr says why.
set -euo pipefail

package=$(cd "$(dirname "$0")/.." && pwd)   # the repository, whose root holds Package.swift
suite=${KOKORO_SWIFT_SUITE:-trixie}        # Debian 13, the first with Swift 6; sid has a newer one
root=$(realpath -m "${KOKORO_SWIFT_ROOT:-${XDG_CACHE_HOME:-${HOME:-/var/cache}/.cache}/kokoro-swift${KOKORO_SWIFT_SUITE:+-$suite}}")
debs=swiftlang,libc6-dev,libstdc++-14-dev,git  # git: SwiftPM takes a package by its address with it
room_mb=4500
given=(KOKORO_BUNDLE KOKORO_BUNDLE_ONNX KOKORO_BUNDLE_STREAMING KOKORO_ONNXRUNTIME)
passed=(KOKORO_CORE_ML_STAND_IN OMP_NUM_THREADS)

tell() { echo "toolchain: $*" >&2; }
cannot() { tell "no Swift here: $*"; exit 3; }

own_swift() { command -v swift >/dev/null && swift --version 2>/dev/null | grep -Eq 'Swift version ([6-9]|[1-9][0-9])\.'; }

require_chroot() {
  [ "$(uname -s)" = Linux ] || cannot "on a Mac it comes with Xcode"
  [ "$(id -u)" = 0 ] || cannot "chroot needs root"
  unshare --mount --propagation private true 2>/dev/null || cannot "this machine allows no mounts of one's own (unshare --mount)"
}

# The archives in apt's sources, one-line and deb822 form, that carry Debian's main component.
archives() {
  local file
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [ -f "$file" ] && sed -nE 's/^[[:space:]]*deb[[:space:]]+(\[[^]]*\][[:space:]]+)?([^[:space:]]+)[[:space:]].*\bmain\b.*/\2/p' "$file"
  done
  for file in /etc/apt/sources.list.d/*.sources; do
    [ -f "$file" ] && awk 'BEGIN { RS = "" } /(^|\n)Components:[^\n]*main/ && !/(^|\n)Enabled:[ \t]*no/ {
      count = split($0, lines, "\n"); for (i = 1; i <= count; i++) if (lines[i] ~ /^URIs:/) { split(lines[i], words, /[ \t]+/); print words[2] } }' "$file"
  done
  return 0
}

archive_of_suite() {
  local url found=1 release=$root.release
  while read -r url && [ $found = 1 ]; do
    if /usr/lib/apt/apt-helper download-file "${url%/}/dists/$suite/Release" "$release" >/dev/null 2>&1 && grep -qE "^(Codename|Suite): $suite" "$release"; then
      echo "${url%/}"; found=0
    fi
    rm -f "$release"
  done < <(archives | awk '!seen[$0]++')
  return $found
}

ready() { [ -d "$root/usr" ] && chroot "$root" /usr/bin/test -x /usr/bin/swift 2>/dev/null; }
has_git() { chroot "$root" /usr/bin/test -x /usr/bin/git 2>/dev/null; }

make_root() (
  mkdir -p "$(dirname "$root")"
  exec 9>"$root.lock"; flock 9             # one makes it, others wait
  if ready; then
    has_git || { chroot "$root" sh -c 'apt-get -qq update && apt-get -qq install -y git'; } >"$root.log" 2>&1 || tell "no git in $root, see $root.log"
    return 0
  fi
  [ ! -e "$root" ] || cannot "$root is there and holds none: remove it, or name another folder in KOKORO_SWIFT_ROOT"
  rm -rf --one-file-system "$root".partial.*
  if ! command -v debootstrap >/dev/null; then
    apt-get install -y -qq debootstrap >"$root.log" 2>&1 || { apt-get update -qq && apt-get install -y -qq debootstrap; } >"$root.log" 2>&1 ||
      cannot "debootstrap cannot be installed, see $root.log"
  fi
  [ "$(df -Pm "$(dirname "$root")" | awk 'NR == 2 { print $4 }')" -gt $room_mb ] || cannot "less than $room_mb MB free for $root"
  archive=$(archive_of_suite) || cannot "no archive in this machine's apt sources holds $suite"
  started=$SECONDS aside=$root.partial.$$
  tell "making $root, 2.6 GB"
  if ! debootstrap --variant=minbase --include=$debs $suite "$aside" "$archive" >"$root.log" 2>&1; then
    rm -rf --one-file-system "$aside"; cannot "debootstrap failed: $(tail -1 "$root.log")"
  fi
  rm -rf "$aside"/var/cache/apt/archives/*.deb
  mv "$aside" "$root"
  tell "made in $((SECONDS - started)) s"
)

# In a mount namespace of our own: all of it is gone when this process ends, however it ends.
inside() {
  local name value variables=(HOME=/root PATH=/usr/bin:/bin LANG=C.UTF-8) place
  mkdir -p "$root/proc" "$root/given"
  mount -t proc proc "$root/proc"
  [ -c "$root/dev/null" ] || mount --rbind /dev "$root/dev"
  name=$(printf %s "$package" | sha256sum | cut -c1-8)
  place=/package-$name
  variables+=("SWIFTPM_BUILD_DIR=/build-$name${KOKORO_CORE_ML_STAND_IN:+-stand-in}") # stays in the folder too: the tree is read only
  mkdir -p "$root$place"
  mount --bind "$package" "$root$place"
  mount -o remount,ro,bind "$root$place"
  for name in "${given[@]}"; do
    [ -n "${!name:-}" ] || continue
    value=$(realpath -e "${!name}") || { tell "$name: ${!name} is not there"; exit 2; }
    if [ -d "$value" ]; then mkdir -p "$root/given/$name"; else : >"$root/given/$name"; fi
    mount --bind "$value" "$root/given/$name"
    mount -o remount,ro,bind "$root/given/$name"
    variables+=("$name=/given/$name")
  done
  for name in "${passed[@]}"; do [ -z "${!name:-}" ] || variables+=("$name=${!name}"); done
  chroot "$root" /usr/bin/env -i "${variables[@]}" sh -c 'cd "$1" && shift && exec "$@"' sh "$place" "$@"
}

run() {
  if [ -z "${KOKORO_SWIFT_SUITE:-}" ] && own_swift; then cd "$package" && exec "$@"; fi
  require_chroot
  make_root
  export -f inside tell; export root package
  exec unshare --mount --propagation private -- bash -euo pipefail -c \
    "given=(${given[*]}) passed=(${passed[*]}); inside \"\$@\"" inside "$@"
}

quiet_test() {
  local log
  log=$(mktemp)
  if (run swift test -j "${SWIFT_JOBS:-1}") >"$log" 2>&1; then
    grep -E 'warning:' "$log" >&2 && { tell "warnings are not wanted"; rm -f "$log"; return 1; }
    grep -E 'Test run with' "$log"; rm -f "$log"
  else
    local code=$?
    grep -vE '^\[[0-9]+/[0-9]+\] ' "$log" >&2; rm -f "$log"
    return $code
  fi
}

case ${1:-} in
  make) # and tried: some machines allow a namespace and no mount in it
    code=0 said=$(run swift --version 2>&1) || code=$?
    [ $code != 3 ] || { echo "$said" >&2; exit 3; }
    [ $code = 0 ] || cannot "it does not start in $root: $(tail -1 <<<"$said")" ;;
  run) shift; run "$@" ;;
  test) quiet_test ;;
  remove) rm -rf --one-file-system "$root" "$root.log" "$root.lock" ;;
  *) sed -n '2,14s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
