//go:build !unix

package sandbox

import (
	"os"
	"os/exec"
)

// ownGroup does nothing: there are no process groups to kill here.
func ownGroup(*exec.Cmd) {}

// killGroup kills the one process.
func killGroup(p *os.Process) { _ = p.Kill() }

func signalOf(*os.ProcessState) (int, string) { return 0, "" }

func maxMemory(*os.ProcessState) int64 { return 0 }
