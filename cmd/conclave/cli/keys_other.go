//go:build !linux && !darwin

package cli

import (
	"os"
	"os/exec"
)

func hasKeys(*os.File) bool { return false }

func setKeys(*os.File, bool) {}

func readTyped(*os.File) string { return "" }

func detach(*exec.Cmd) {}
