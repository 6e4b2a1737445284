//go:build unix && !linux

package mcp

import "syscall"

// relative is a process that a server started; it is used on Linux only.
type relative struct{}

// sysAttributes gives the program a session of its own, without a terminal.
func sysAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

func (p *process) terminate() { _ = syscall.Kill(-p.pid, syscall.SIGTERM) }

func (p *process) kill() { _ = syscall.Kill(-p.pid, syscall.SIGKILL) }

func (p *process) familyMembers() map[int]relative { return nil }

// sweepFamily kills the rest of the process group.
func (p *process) sweepFamily(map[int]relative) { p.kill() }
