#!/bin/sh
# Installs Tenure from an archive, after its checksum was verified. Nothing is run with more rights than yours.
#
#   TENURE_BASE_URL=https://… sh install.sh
#
# TENURE_BASE_URL   where the archive and SHA256SUMS are; required
# TENURE_PREFIX     the folder that gets bin/tenure and share/; ~/.local without it
# TENURE_TARGET     another archive than the one for this machine
set -eu

version='{{version}}'
prefix="${TENURE_PREFIX:-$HOME/.local}"

fail() {
  echo "error: $1" >&2
  exit 1
}

fetch() {
  if command -v curl >/dev/null; then
    curl --fail --silent --show-error --location --output "$2" "$1" || fail "$1 cannot be fetched"
  elif command -v wget >/dev/null; then
    wget --quiet --output-document "$2" "$1" || fail "$1 cannot be fetched"
  else
    fail "neither curl nor wget is installed"
  fi
}

target() {
  [ "$(uname -s)" = Linux ] || fail "there are archives for Linux only; build from source"
  case "$(uname -m)" in
    x86_64 | amd64) machine=x86_64 ;;
    aarch64 | arm64) machine=aarch64 ;;
    *) fail "there is no archive for $(uname -m); build from source" ;;
  esac
  for one in "$machine-unknown-linux-musl" "$machine-unknown-linux-gnu"; do
    if grep -q "  tenure-$version-$one.tar.gz\$" "$1"; then
      echo "$one"
      return
    fi
  done
  fail "SHA256SUMS names no archive of $version for $machine"
}

verify() {
  expected=$(grep "  $2\$" "$1/SHA256SUMS") || fail "SHA256SUMS does not name $2"
  if command -v sha256sum >/dev/null; then
    (cd "$1" && echo "$expected" | sha256sum --check --status) || fail "the checksum of $2 is wrong; nothing was installed"
  elif command -v shasum >/dev/null; then
    (cd "$1" && echo "$expected" | shasum -a 256 --check --status) || fail "the checksum of $2 is wrong; nothing was installed"
  else
    fail "neither sha256sum nor shasum is installed, so the archive cannot be verified"
  fi
}

# All of it is read before any of it runs: a text that was cut off in the middle does nothing.
main() {
  base="${TENURE_BASE_URL:?where are the archive and SHA256SUMS?}"
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  fetch "$base/SHA256SUMS" "$folder/SHA256SUMS"
  name="tenure-$version-${TENURE_TARGET:-$(target "$folder/SHA256SUMS")}"
  [ "$name" != "tenure-$version-" ] || exit 1
  fetch "$base/$name.tar.gz" "$folder/$name.tar.gz"
  verify "$folder" "$name.tar.gz"
  tar -C "$folder" -xzf "$folder/$name.tar.gz"
  mkdir -p "$prefix/bin" "$prefix/share/man/man1"
  # Replaced in one step, so that a server that runs keeps its file.
  cp "$folder/$name/tenure" "$prefix/bin/.tenure.new"
  chmod 755 "$prefix/bin/.tenure.new"
  mv "$prefix/bin/.tenure.new" "$prefix/bin/tenure"
  cp "$folder/$name/man/man1/"*.1 "$prefix/share/man/man1/"
  echo "installed $("$prefix/bin/tenure" --version) as $prefix/bin/tenure"
  case ":$PATH:" in
    *":$prefix/bin:"*) ;;
    *) echo "put $prefix/bin on your PATH" ;;
  esac
}

main
