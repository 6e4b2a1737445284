//go:build !linux && !darwin

package peer

import "errors"

func owners() []owner { return nil }

func distinct(uint32) error { return errors.New("this system does not report them") }
