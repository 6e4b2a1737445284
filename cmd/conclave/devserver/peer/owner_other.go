//go:build !linux && !darwin

package peer

import (
	"errors"
	"net"
)

func owners() []owner { return nil }

func connected(*net.TCPConn) error { return nil }

func distinct(uint32) error { return errors.New("this system does not report them") }
