package cluster

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"runtime/debug"
	"sync"
)

// unreleased is the version of a build outside a repository.
const unreleased = "(devel)"

// Version returns the version that the linker recorded, or else the commit. The version of an
// unreleased build contains the commit.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return unreleased
	}
	if v := info.Main.Version; v != "" && v != unreleased {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return unreleased
}

// BuildID identifies this build among the versions of a worker deployment. It is the version or, if
// there is no version, a checksum of the executable.
var BuildID = sync.OnceValue(func() string {
	if v := Version(); v != unreleased {
		return v
	}
	return cmp.Or(checksum(os.Executable), unreleased)
})

// checksum returns the first part of the SHA-256 of a file, or "" if the file cannot be read.
func checksum(name func() (string, error)) string {
	path, err := name()
	if err != nil {
		return ""
	}
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return ""
	}
	const digits = 16
	return hex.EncodeToString(hash.Sum(nil))[:digits]
}
