//go:build unix && !linux

package mcp

import "syscall"

// relative is a process that a server started; it is used on Linux only.
type relative struct{}

// attributes gives the program a session of its own, without a terminal.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

func (p *process) terminate() { _ = syscall.Kill(-p.pid, syscall.SIGTERM) }

func (p *process) kill() { _ = syscall.Kill(-p.pid, syscall.SIGKILL) }

func (p *process) family() map[int]relative { return nil }

// sweep kills the rest of the process group.
func (p *process) sweep(map[int]relative) { p.kill() }
