#!/bin/sh
# Smaller copies of an image, by a shell script that survives kill -9. It needs jq.
#
#     tenure work --queue images --exec examples/images/resize.sh
#     tenure submit resize --queue images --input '{"image": "photo.jpg", "widths": [320, 640]}' --wait
#
# Every copy is a step: after a crash, on this machine or on another one with the same storage, copies that are recorded
# are not made again. RESIZE is the program that makes one, called with input, output and width; without it, ImageMagick
# does.
set -eu

with_imagemagick() { convert "$1" -resize "$3" "$2"; }

# One copy, as the command of a step. A step may be executed twice, so a copy appears whole or not at all: it is written
# beside its place and then renamed.
make_copy() {
  copy="${1%.*}-$2.${1##*.}"
  part="${1%.*}-$2.part.${1##*.}"
  ${RESIZE:-with_imagemagick} "$1" "$part" "$2"
  mv "$part" "$copy"
  jq --compact-output --null-input --arg file "$copy" --argjson width "$2" '{$width, $file}'
}

if [ "${1:-}" = --copy ]; then
  make_copy "$2" "$3"
  exit
fi

job=$(cat)
image=$(printf '%s' "$job" | jq --raw-output .image)
# Exit code 65 says that the input is at fault, so the run is not tried again.
[ -r "$image" ] || { echo "there is no image $image" >&2; exit 65; }

copies=$(mktemp)
trap 'rm -f "$copies"' EXIT
for width in $(printf '%s' "$job" | jq --raw-output '.widths[]'); do
  tenure step "copy-$width" --tries 3 -- "$0" --copy "$image" "$width" >>"$copies"
done
jq --compact-output --slurp --arg image "$image" '{$image, copies: .}' "$copies"
