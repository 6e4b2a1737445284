//go:build !linux

package sandbox

import (
	"context"
	"runtime"
)

type hostState struct{}

func probe(context.Context) Host {
	return Host{Level: Off, Missing: []string{
		"the sandbox needs Linux; " + runtime.GOOS + " has neither its namespaces nor Landlock, so run the worker on Linux, in a virtual machine or a container",
	}}
}

// try does nothing, because this system confines at no level.
func try(context.Context, Host) error { return nil }

func (s *Sandbox) prepare() {}

func (s *Sandbox) release() error { return nil }

func (s *Sandbox) start(c Command, stdout, stderr stream) (*running, error) {
	return s.startUnconfined(c, stdout, stderr)
}
