#!/bin/sh
# llama-server.sh OUTDIR builds llama.cpp's server and leaves it as OUTDIR/llama-server.
#
# The sources are those that the npm package node-llama-cpp carries, as a git
# bundle, for building from source: pinned by its version, and checked below.
# It needs cmake, ninja, git, npm and a C++ compiler, takes about six minutes of
# processor time, and runs for any x86-64 or arm64 machine, not only this one.
set -eu

VERSION=3.22.1
JOBS=${JOBS:-1}

out=${1:?usage: llama-server.sh OUTDIR}
mkdir -p "$out"
out=$(cd "$out" && pwd)
test ! -x "$out/llama-server" || exit 0

for tool in cmake ninja git npm; do
	command -v "$tool" >/dev/null || { echo "llama-server.sh: $tool is missing; install it" >&2; exit 1; }
done

work=$out/llama-server.build
rm -rf "$work"
mkdir -p "$work"
cd "$work"
npm pack --silent "node-llama-cpp@$VERSION" >/dev/null
tar xzf "node-llama-cpp-$VERSION.tgz" package/llama/gitRelease.bundle
git clone --quiet package/llama/gitRelease.bundle source

# Without LLAMA_USE_PREBUILT_UI=OFF the build fetches a web page from the network.
cmake -S source -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF -DGGML_NATIVE=OFF \
	-DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF \
	-DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_NUMBER=0
nice -n 15 ninja -C build -j "$JOBS" llama-server

mv build/bin/llama-server "$out/llama-server"
cd "$out"
rm -rf "$work"
