package mcp

import (
	"context"
	"sync/atomic"
)

// track follows one call through the SDK down to the wire.
type track struct {
	sent   atomic.Bool  // the server may have got it
	status atomic.Int64 // of the last HTTP response, 0 if there was none
}

type trackKey struct{}

func tracked(ctx context.Context) (context.Context, *track) {
	t := new(track)
	return context.WithValue(ctx, trackKey{}, t), t
}

// trackOf returns the track of a call, or one that nobody reads.
func trackOf(ctx context.Context) *track {
	if t, ok := ctx.Value(trackKey{}).(*track); ok {
		return t
	}
	return new(track)
}
