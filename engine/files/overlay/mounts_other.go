//go:build !linux

package overlay

import (
	"errors"
	"os"
)

// Mounts is a mount namespace, which this system does not have.
type Mounts struct{}

// RunHolder does nothing on this system.
func RunHolder() {}

// Open fails on this system.
func Open() (*Mounts, error) { return nil, errors.ErrUnsupported }

// Path returns the path itself.
func (*Mounts) Path(name string) string { return name }

// Overlay fails on this system.
func (*Mounts) Overlay(_, _, _, _ string) error { return errors.ErrUnsupported }

// ReadOnly fails on this system.
func (*Mounts) ReadOnly(_, _, _ string) error { return errors.ErrUnsupported }

// Unmount fails on this system.
func (*Mounts) Unmount(_, _ string) error { return errors.ErrUnsupported }

// Clone fails on this system.
func (*Mounts) Clone(string, int) (*os.File, error) { return nil, errors.ErrUnsupported }

// Tree returns nil.
func (*Mounts) Tree(string) func(int) (*os.File, error) { return nil }

// Close does nothing.
func (*Mounts) Close() {}
