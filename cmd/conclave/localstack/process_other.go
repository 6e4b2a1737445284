//go:build !linux && !darwin

package localstack

import (
	"errors"
	"os"
	"os/exec"
)

func supported() error {
	return errors.New("the embedded stack runs on Linux and macOS only; use a cluster with --address")
}

func detach(*exec.Cmd) {}

func ownerOnly() {}

func inherited(uintptr, string) *os.File { return nil }
