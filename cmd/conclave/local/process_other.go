//go:build !linux && !darwin

package local

import (
	"errors"
	"os"
	"os/exec"
)

func requireSupported() error {
	return errors.New("the embedded stack runs on Linux and macOS only; use a cluster with --address")
}

func detachChild(*exec.Cmd) {}

func ownerOnly() {}

func openInherited(uintptr, string) *os.File { return nil }
