//go:build !linux && !darwin

package cli

import (
	"context"
	"errors"
	"os"
)

// Keys is not available on this system.
type Keys struct{}

// OpenKeys returns nil.
func (c *CLI) OpenKeys(Display) *Keys { return nil }

// Listen returns at once.
func (k *Keys) Listen(context.Context, func(string)) {}

func discardTyped(*os.File) {}

// OpenBrowser returns an error.
func OpenBrowser(address string) error {
	return errors.New("open " + address + " in a browser: conclave cannot on this system")
}
