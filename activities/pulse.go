package activities

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"
)

// BookkeepingTimeout is after how much silence Prepare, Record or Present is
// given to another worker: a killed one must not hold a session up for as long
// as a slow store may.
const BookkeepingTimeout = 10 * time.Second

const pulseInterval = 3 * time.Second

// pulse heartbeats while an activity works that has nothing to tell.
func pulse(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(pulseInterval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				activity.RecordHeartbeat(ctx)
			}
		}
	}()
	return func() { cancel(); <-done }
}
