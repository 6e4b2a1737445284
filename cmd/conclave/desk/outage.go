package desk

import (
	"context"
	"errors"
	"net"
	"time"

	"go.temporal.io/api/serviceerror"
	"google.golang.org/grpc/codes"
)

// How long Temporal or the store may be unavailable before the caller gets an error.
const (
	startPatience  = time.Minute      // longest wait until a request has its session
	followPatience = 10 * time.Minute // while the caller waits for the reply
)

// longCall exceeds the time for which the SDK retries a call by itself. A longer call was
// answered by the service at some point, so its failure begins another outage.
const longCall = 2 * time.Minute

// throughOutage repeats a call that fails because a service is unavailable, until the
// outage has lasted for patience.
func throughOutage(ctx context.Context, patience time.Duration, call func(context.Context) error) error {
	const first, last = 250 * time.Millisecond, 5 * time.Second
	var since time.Time // begin of the outage
	for interval := first; ; interval = min(2*interval, last) {
		began := time.Now()
		err := call(ctx)
		if !away(err) || ctx.Err() != nil {
			return err
		}
		switch now := time.Now(); {
		case now.Sub(began) > longCall:
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

// away reports whether an error is that of a service that may soon be available again.
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
