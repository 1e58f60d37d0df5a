#!/usr/bin/env bash
#
# Every check of the project, the same by hand and in CI. See usage below.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

usage() {
  cat <<'END'
usage: ./test.sh [quick]

Runs every check of the project, all of them even when one fails, and ends with
a table of them. Exits with 1 if any failed.

  ./test.sh         everything: what CI runs
  ./test.sh quick   without the race detector and without fuzzing

FUZZTIME=1m ./test.sh gives each fuzz target a minute instead of 5s.

Tests start Redis servers of their own, so redis-server must be in PATH; where it
is not, the system's package manager installs it (with sudo, unless run by root).
The race detector needs a C compiler, which is installed in the same way.
END
}

quick=false
case "${1:-}" in
  "") ;;
  quick) quick=true ;;
  -h | --help) usage; exit 0 ;;
  *) usage >&2; exit 2 ;;
esac
if [ $# -gt 1 ]; then usage >&2; exit 2; fi

have() { command -v "$1" >/dev/null 2>&1; }

if ! have go; then
  echo "test.sh: go is not in PATH: install Go (https://go.dev/dl), at least the version that go.mod names" >&2
  exit 1
fi

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
mkdir "$tmp/bin"
export PATH="$tmp/bin:$PATH"

# A test that finds no Redis server fails instead of being skipped.
export SLUICE_REQUIRE_REDIS=1

# No version stamp: git refuses to give one in a checkout that another user owns,
# as in many containers, and the build would fail for it.
GOFLAGS="$(go env GOFLAGS) -buildvcs=false"
export GOFLAGS

# ---- what the checks need ----

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif have sudo; then
    sudo "$@"
  else
    echo "neither root nor sudo: cannot run: $*" >&2
    return 1
  fi
}

# manager prints the name of the system's package manager, nothing if there is none.
manager() {
  local m
  for m in apt-get dnf apk pacman brew; do
    if have "$m"; then echo "$m"; return; fi
  done
}

# install installs packages of the system's package manager.
install() {
  case "$(manager)" in
    apt-get) install_apt "$@" ;;
    dnf) as_root dnf install -y "$@" ;;
    apk) as_root apk add "$@" ;;
    pacman) as_root pacman -Sy --noconfirm --needed "$@" ;;
    brew) brew install "$@" ;;
    *) return 1 ;;
  esac
}

install_apt() {
  # Debian starts a server when it is installed. Tests start their own, and port
  # 6379 is none of theirs, so for as long as this takes services stay down.
  as_root true || return 1
  local policy=/usr/sbin/policy-rc.d try
  if [ ! -e $policy ]; then
    trap 'as_root rm -f /usr/sbin/policy-rc.d' EXIT
    printf '#!/bin/sh\nexit 101\n' | as_root tee $policy >/dev/null
    as_root chmod +x $policy
  fi
  for try in 1 2 3; do
    if as_root apt-get -qq -o DPkg::Lock::Timeout=120 update &&
      as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
        apt-get -qq -y -o DPkg::Lock::Timeout=120 -o Dpkg::Use-Pty=0 --no-install-recommends install "$@"; then
      return
    fi
    echo "apt-get failed, try $try of 3" >&2
    sleep $((try * 5))
  done
  return 1
}

need_redis() {
  have redis-server || have valkey-server || case "$(manager)" in
    apt-get) install redis-server ;;
    dnf | apk) install redis || install valkey ;; # newer releases have only the fork
    pacman) install valkey ;;
    brew) install redis ;;
  esac || true
  if ! have redis-server && have valkey-server; then
    ln -s "$(command -v valkey-server)" "$tmp/bin/redis-server"
  fi
  if ! have redis-server; then
    echo "redis-server is not in PATH and could not be installed here." >&2
    echo "Install Redis (https://redis.io/docs/latest/get-started) and run this again; no server has to run." >&2
    return 1
  fi
  redis-server --version
}

need_compiler() {
  [ "$(go env CGO_ENABLED)" = 1 ] || case "$(manager)" in
    apt-get) install gcc libc6-dev ;;
    apk) install gcc musl-dev ;;
    dnf | pacman) install gcc ;;
  esac || true
  if [ "$(go env CGO_ENABLED)" != 1 ]; then
    echo "The race detector needs a C compiler (and CGO_ENABLED=1), and none could be installed here." >&2
    echo "Install gcc or clang (macOS: xcode-select --install) and run this again." >&2
    return 1
  fi
  go env CC
}

# ---- the checks ----

# files lists the files of the project that are committed or would be.
files() {
  { git -c core.quotepath=off ls-files -co --exclude-standard 2>/dev/null ||
    find . -name .git -prune -o -type f -print; } |
    while IFS= read -r f; do if [ -f "$f" ]; then echo "$f"; fi; done
}

check_gofmt() {
  local out
  files | grep '\.go$' >"$tmp/go-files"
  out=$(tr '\n' '\0' <"$tmp/go-files" | xargs -0 "$(go env GOROOT)/bin/gofmt" -l)
  if [ -n "$out" ]; then
    printf 'not formatted, run gofmt -w on:\n%s\n' "$out"
    return 1
  fi
}

check_build() { go build ./... && GOARCH=386 go build ./...; } # also where an int has 32 bits
check_vet() { go vet ./...; }
check_fix() { go fix -diff ./...; } # prints what it would change, and fails
check_staticcheck() { go tool -modfile=tools/go.mod staticcheck ./...; }

check_tidy() {
  go mod tidy -diff
  cd tools
  go mod tidy -diff
}

# check_generated generates in a copy, so that the checkout stays as it is.
check_generated() {
  mkdir "$tmp/is" "$tmp/would"
  files | tar -cf "$tmp/files.tar" -T -
  tar -xf "$tmp/files.tar" -C "$tmp/is"
  tar -xf "$tmp/files.tar" -C "$tmp/would"
  (cd "$tmp/would" && go generate ./...)
  if ! (cd "$tmp" && diff -ru is would); then
    echo "generated files are not current: run go generate ./..."
    return 1
  fi
}

# check_bench looks after the benchmarks, which are a module of their own.
check_bench() {
  cd bench
  go mod tidy -diff
  go vet ./...
  go tool -modfile=../tools/go.mod staticcheck ./...
  go test ./...
}

check_test() { go test ./...; }
check_race() { go test -race -shuffle=on -timeout=6m ./...; }

check_fuzz() {
  local path target failed=0
  files | grep '_test\.go$' | grep -v /testdata/ | tr '\n' '\0' |
    xargs -0 grep -HoE '^func Fuzz[A-Za-z0-9_]*' >"$tmp/targets" || { echo "no fuzz targets"; return 1; }
  while IFS=: read -r path target; do
    fuzz "./$(dirname "$path")" "${target#func }" </dev/null || failed=1
  done <"$tmp/targets"
  return $failed
}

# fuzz runs one target. Before Go 1.27 the end of -fuzztime can itself be reported
# as a failure (https://go.dev/issue/75804): such a run is repeated, once.
fuzz() {
  local try
  for try in 1 2; do
    echo "$1 $2"
    if go test -run='^$' -fuzz="^$2\$" -fuzztime="${FUZZTIME:-5s}" -fuzzminimizetime=10x "$1" 2>&1 | tee "$tmp/fuzz"; then
      return
    fi
    if [ $try = 2 ] || grep -q 'Failing input written' "$tmp/fuzz" ||
      ! grep -q '^ *context deadline exceeded$' "$tmp/fuzz"; then
      return 1
    fi
    echo "no failing input, only the deadline: once more"
  done
}

# ---- running them ----

failures=0

step() {
  local name=$1 start=$SECONDS result=ok code
  shift
  printf '\n==> %s\n' "$name"
  # A subshell of its own, outside any condition: within one, set -e means nothing.
  set +e
  (set -e; "$@")
  code=$?
  set -e
  if [ $code != 0 ]; then result=FAILED failures=$((failures + 1)); fi
  printf '%-20s %-8s %6s\n' "$name" $result "$((SECONDS - start))" >>"$tmp/summary"
}

printf '%-20s %-8s %6s\n' step result seconds >"$tmp/summary"

step redis-server need_redis
$quick || step "C compiler" need_compiler
step gofmt check_gofmt
step "go build" check_build
step "go vet" check_vet
step "go fix" check_fix
step staticcheck check_staticcheck
step "go mod tidy" check_tidy
step generated check_generated
step bench check_bench
if $quick; then
  step "go test" check_test
else
  step "go test -race" check_race
  step fuzz check_fuzz
fi

printf '\n'
cat "$tmp/summary"
printf '%d seconds, %d failed\n' $SECONDS $failures
[ $failures = 0 ]
