package drive

import (
	"time"

	"go.temporal.io/sdk/workflow"
)

// Books writes the records of a run, one activity at a time.
type Books struct{ writing workflow.Future }

// bookkeeper has the entries that are not on record.
type bookkeeper interface {
	// StartRecord starts an activity that writes everything not yet on record.
	StartRecord(workflow.Context) workflow.Future
	// Recorded takes its result. After an error the entries belong to the next record.
	Recorded(workflow.Context, workflow.Future) error
}

// Writing reports whether a record is being written.
func (b *Books) Writing() bool { return b.writing != nil }

// Write starts a record. The activity outlives the cancellation of the run.
func (b *Books) Write(ctx workflow.Context, keeper bookkeeper) {
	detached, _ := workflow.NewDisconnectedContext(ctx)
	b.writing = keeper.StartRecord(detached)
}

// Select has the selector finish the record that is being written.
func (b *Books) Select(ctx workflow.Context, selector workflow.Selector, keeper bookkeeper) {
	if b.writing != nil {
		selector.AddFuture(b.writing, func(workflow.Future) { _ = b.finish(ctx, keeper) })
	}
}

// Flush waits for the record that is being written and writes the rest.
func (b *Books) Flush(ctx workflow.Context, keeper bookkeeper) error {
	if b.writing != nil {
		_ = b.finish(ctx, keeper) // its entries are in the next record
	}
	b.writing = keeper.StartRecord(ctx)
	return b.finish(ctx, keeper)
}

func (b *Books) finish(ctx workflow.Context, keeper bookkeeper) error {
	writing := b.writing
	b.writing = nil
	err := keeper.Recorded(ctx, writing)
	if err != nil {
		workflow.GetLogger(ctx).Error("writing a record failed; the next one repeats it", "error", err)
	}
	return err
}

// FlushInTime runs the last flush of a cancelled run, for at most two minutes.
func FlushInTime(ctx workflow.Context, flush func(workflow.Context) error) {
	written := workflow.NewChannel(ctx)
	workflow.Go(ctx, func(ctx workflow.Context) {
		if err := flush(ctx); err != nil {
			workflow.GetLogger(ctx).Error("the records of the cancelled run are incomplete", "error", err)
		}
		written.Close()
	})
	timer := workflow.NewTimerWithOptions(ctx, 2*time.Minute, workflow.TimerOptions{Summary: "for the last records"})
	workflow.NewSelector(ctx).
		AddReceive(written, func(workflow.ReceiveChannel, bool) {}).
		AddFuture(timer, func(workflow.Future) {}).
		Select(ctx)
}
