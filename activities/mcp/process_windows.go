package mcp

import (
	"os/exec"
	"strconv"
	"syscall"
)

// relative is a process that a server started; nobody but Linux tells.
type relative struct{}

// attributes keep the console's interrupts from the program.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// terminate does nothing: there is no way to ask.
func (p *process) terminate() {}

// kill ends the program with those that descend from it.
func (p *process) kill() {
	_ = exec.Command("taskkill", "/T", "/F", "/PID", strconv.Itoa(p.pid)).Run()
}

func (p *process) family() map[int]relative { return nil }

func (p *process) sweep(map[int]relative) {}
