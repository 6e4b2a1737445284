//go:build !unix

package sandbox

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
)

// directoryUsage walks a directory. It does not change permissions.
func directoryUsage(path string, check func(int) error, _ bool) (usage, error) {
	var sum usage
	err := filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
		if name == path || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		sum.files++
		if info, err := entry.Info(); err == nil {
			sum.bytes += info.Size()
		}
		if check != nil {
			return check(sum.files)
		}
		return nil
	})
	return sum, err
}

// freeSpace returns an unlimited usage, because this system does not report free space.
func freeSpace(string) (usage, error) { return usage{bytes: math.MaxInt64}, nil }

func sameVolume(string, string) bool { return true }

// ownGroup does nothing, because this system has no process groups.
func ownGroup(*exec.Cmd) {}

// killGroup kills only the process itself.
func killGroup(p *os.Process) { _ = p.Kill() }

func signalOf(*os.ProcessState) (int, string) { return 0, "" }

func limitOwnMemory(uint64) {}
