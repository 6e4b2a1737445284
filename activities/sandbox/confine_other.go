//go:build !linux

package sandbox

import (
	"context"
	"runtime"
)

type hostState struct{}

func probeHost(context.Context) Host {
	return Host{Level: Off, Missing: []string{
		"the sandbox needs Linux; " + runtime.GOOS + " has neither its namespaces nor Landlock, so run the worker on Linux, in a virtual machine or a container",
	}}
}

func (s *Sandbox) prepareHost() {}

func (s *Sandbox) releaseHost() error { return nil }

func (s *Sandbox) startCommand(c Command, caches []Cache, stdout, stderr stream) (*running, error) {
	return s.startUnconfined(c, caches, stdout, stderr)
}
