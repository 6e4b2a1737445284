#!/bin/sh
# Builds a release into DIST (default dist): an archive for each of TARGETS with SHA256SUMS, a Homebrew
# formula and npm packages. It publishes nothing. Run it in the repository's root: make release.
set -eu

# npm accepts only versions of three numbers, so a commit without a tag is 0.0.0-COMMIT.
version=${VERSION:-$(git describe --tags --dirty 2>/dev/null || echo "0.0.0-$(git rev-parse --short HEAD 2>/dev/null || echo devel)")}
version=${version#v}
stamp=$(git rev-parse --is-inside-work-tree 2>/dev/null || echo false) # the binaries record their commit
targets=${TARGETS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64}
commands=${COMMANDS:-conclave conclave-worker}
base=${BASE_URL:-https://example.com/conclave/releases/download}
dist=${DIST:-dist}
here=$(cd "$(dirname "$0")" && pwd)

rm -rf "$dist"
mkdir -p "$dist"
dist=$(cd "$dist" && pwd)

# The date of the commit makes equal sources give equal archives.
date=$(git log -1 --format=%ct 2>/dev/null || echo 0)

pack() { # NAME OS ARCH
	dir=$dist/$1
	mkdir -p "$dir"
	cp LICENSE README.md CHANGELOG.md "$dir/"
	for command in $commands; do
		echo "building $command for $2/$3" >&2
		CGO_ENABLED=0 GOOS=$2 GOARCH=$3 go build -trimpath -buildvcs="$stamp" -ldflags='-s -w' -o "$dir/$command" "./cmd/$command"
		sh "$here/sbom.sh" "$dir/$command" >"$dir/$command.cdx.json" # its bill of materials
	done
	tar -C "$dist" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$date" -cf - "$1" | gzip -n >"$dist/$1.tar.gz"
}

# npm's names of the platforms.
npm_platform() { # OS ARCH
	case $2 in amd64) echo "$1 x64" ;; *) echo "$1 $2" ;; esac
}

npm_package() { # NAME OS ARCH
	set -- "$1" $(npm_platform "$2" "$3")
	dir=$dist/npm/conclave-$2-$3
	mkdir -p "$dir/bin"
	case " $commands " in *" conclave "*) cp "$dist/$1/conclave" "$dir/bin/" ;; esac
	printf '{"name": "conclave-%s-%s", "version": "%s", "os": ["%s"], "cpu": ["%s"], "files": ["bin"]}\n' \
		"$2" "$3" "$version" "$2" "$3" >"$dir/package.json"
	optional="$optional${optional:+, }\"conclave-$2-$3\": \"$version\""
}

optional=
for target in $targets; do
	os=${target%/*} arch=${target#*/}
	name=conclave_${version}_${os}_${arch}
	pack "$name" "$os" "$arch"
	npm_package "$name" "$os" "$arch"
	rm -r "${dist:?}/$name"
done

cd "$dist"
sha256sum ./*.tar.gz | sed 's| \./| |' >SHA256SUMS
cd - >/dev/null

sum() { # OS ARCH; the checksum in the formula
	awk -v name="conclave_${version}_$1_$2.tar.gz" '$2 == name {print $1}' "$dist/SHA256SUMS"
}
sed -e "s|@VERSION@|$version|g" -e "s|@BASE@|$base|g" \
	-e "s|@LINUX_AMD64@|$(sum linux amd64)|" -e "s|@LINUX_ARM64@|$(sum linux arm64)|" \
	-e "s|@DARWIN_AMD64@|$(sum darwin amd64)|" -e "s|@DARWIN_ARM64@|$(sum darwin arm64)|" \
	"$here/conclave.rb" >"$dist/conclave.rb"

mkdir -p "$dist/npm/conclave/bin"
cp "$here/launcher.js" "$dist/npm/conclave/bin/conclave.js"
printf '{"name": "conclave", "version": "%s", "license": "%s", "bin": {"conclave": "bin/conclave.js"}, "files": ["bin"], "optionalDependencies": {%s}}\n' \
	"$version" "SEE LICENSE IN LICENSE" "$optional" >"$dist/npm/conclave/package.json"
cp LICENSE "$dist/npm/conclave/"
ls "$dist" >&2
