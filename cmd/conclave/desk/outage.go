package desk

import (
	"context"
	"errors"
	"net"
	"time"

	"go.temporal.io/api/serviceerror"
	"google.golang.org/grpc/codes"
)

// Times for which Temporal or the store may be away before a caller is told so.
const (
	startPatience  = 30 * time.Second // until a request has its session; nothing has been sent yet
	followPatience = 10 * time.Minute // while the caller waits for the reply
)

// served is longer than the SDK repeats a call by itself: one that took longer was served meanwhile.
const served = 2 * time.Minute

// throughOutage repeats a call that fails because a service is away, until the outage has
// lasted for the patience.
func throughOutage(ctx context.Context, patience time.Duration, call func(context.Context) error) error {
	const first, last = 250 * time.Millisecond, 5 * time.Second
	var since time.Time // the outage's begin
	for interval := first; ; interval = min(2*interval, last) {
		began := time.Now()
		err := call(ctx)
		if !away(err) || ctx.Err() != nil {
			return err
		}
		switch now := time.Now(); {
		case now.Sub(began) > served:
			since, interval = now, first
		case since.IsZero():
			since = began
		}
		if time.Since(since)+interval > patience {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(interval):
		}
	}
}

// away reports the error of a service that may be back a moment later.
func away(err error) bool {
	if _, unreachable := errors.AsType[net.Error](err); unreachable {
		return true // a deadline is one, too
	}
	failed, ok := errors.AsType[serviceerror.ServiceError](err)
	if !ok {
		return false
	}
	switch failed.Status().Code() {
	case codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted, codes.Aborted, codes.Internal, codes.Canceled:
		return true
	}
	return false
}
