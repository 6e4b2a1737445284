//go:build !linux

package attack

import (
	"context"
	"errors"
	"io"

	"conclave/activities/sandbox"
)

// Names are the names of all attacks; none on this system.
func Names() []string { return nil }

// Run refuses every level that this system does not give. There are no attacks for
// what it gives.
func Run(ctx context.Context, o Options) ([]Result, error) {
	if o.Level == "" {
		o.Level = sandbox.Full
	}
	if o.Host.Level == "" {
		o.Host = sandbox.Probe(ctx)
	}
	if err := require(o.Level, o.Host); err != nil {
		return nil, err
	}
	return nil, errors.New("the attacks need Linux")
}

// RunChild needs Linux.
func RunChild([]string, io.Reader, io.Writer) int { return 1 }
