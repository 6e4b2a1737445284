//go:build !linux && !darwin

package devserver

import (
	"errors"
	"os"
	"os/exec"
)

var errUnsupported = errors.New("the embedded stack runs on Linux and macOS only; use a cluster with --address")

func flock(*os.File, lockMode) (held bool, err error) { return false, errUnsupported }

func detach(*exec.Cmd) {}

func ownerOnly() {}

func inherited(uintptr, string) *os.File { return nil }
