package mcp

import (
	"os/exec"
	"strconv"
	"syscall"
)

// relative is a process that a server started; it is used on Linux only.
type relative struct{}

// sysAttributes shields the program from interrupts of the console.
func sysAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// terminate does nothing: Windows has no equivalent of SIGTERM.
func (p *process) terminate() {}

func (p *process) kill() {
	_ = exec.Command("taskkill", "/T", "/F", "/PID", strconv.Itoa(p.pid)).Run()
}

func (p *process) familyMembers() map[int]relative { return nil }

func (p *process) sweepFamily(map[int]relative) {}
