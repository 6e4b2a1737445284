#!/bin/sh
# Makes the images conclave-worker:VERSION and conclave:VERSION of the binaries in the release of DIST (default dist): those of
# the archive that users download, byte for byte. It pushes nothing. ARCH is amd64 or arm64; CONTAINERS is docker,
# podman or buildah. Run it in the repository's root after make release: make image.
set -eu

dist=${DIST:-dist}
arch=${ARCH:-$(go env GOARCH)}
containers=${CONTAINERS:-$(for c in docker podman buildah; do command -v $c && break; done || true)}
certificates=${CERTIFICATES:-/etc/ssl/certs/ca-certificates.crt}
here=$(cd "$(dirname "$0")" && pwd)

stop() { echo "image: $1" >&2; exit 1; }
archive=$(ls "$dist"/conclave_*_linux_"$arch".tar.gz 2>&-) || stop "no archive for linux/$arch in $dist: run make release first"
[ "$(echo "$archive" | wc -l)" = 1 ] || stop "several archives for linux/$arch in $dist: run make release again"
[ -n "$containers" ] || stop "there is no docker, podman or buildah: install one, or name it in CONTAINERS"
[ -s "$certificates" ] || stop "$certificates has no certificates: name a file of them in CERTIFICATES"
(cd "$dist" && grep " $(basename "$archive")\$" SHA256SUMS | sha256sum --check --quiet) || stop "$archive is not what SHA256SUMS says: run make release again"

name=$(basename "$archive" .tar.gz)
version=${name#conclave_} && version=${version%_linux_*}
context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
tar -C "$context" --strip-components=1 -xzf "$archive"
mkdir -p "$context/files/etc/ssl/certs" "$context/files/tmp" # /tmp has the workspaces of running steps
chmod 1777 "$context/files/tmp"
cp "$certificates" "$context/files/etc/ssl/certs/ca-certificates.crt"

tag=$(echo "$version" | tr '+' '-') # a tag has no +
for target in worker serve; do
	image=conclave-worker:$tag
	[ $target = worker ] || image=conclave:$tag
	"$containers" build --platform "linux/$arch" --target $target -f "$here/Dockerfile" -t "$image" "$context" >&2
	echo "$image"
done
