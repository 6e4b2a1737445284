package worker

import (
	"cmp"
	"runtime/debug"

	sdkworker "go.temporal.io/sdk/worker"
)

// nameBinary tells the SDK what this program is called in histories. Left to
// itself, it reads and hashes the whole executable before the first poll, which
// takes a good part of a second for one with the embedded servers in it.
func nameBinary() {
	sdkworker.SetBinaryChecksum(binaryName())
}

// binaryName is the commit that the program was built from, else its version.
func binaryName() string {
	const unknown = "conclave"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return unknown
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return cmp.Or(info.Main.Version, unknown)
}
