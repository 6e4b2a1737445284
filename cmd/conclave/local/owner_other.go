//go:build !linux && !darwin

package local

import (
	"errors"
	"net"
)

var errUnsupported = errors.New("this system does not report them")

func findOwner(*net.TCPConn) (uint32, error) { return 0, errUnsupported }

func requireConnected(*net.TCPConn) error { return nil }

func requireDistinctUser(uint32) error { return errUnsupported }
