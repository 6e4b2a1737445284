package drive

import (
	"time"

	"go.temporal.io/sdk/workflow"
)

// Recorder writes the records of a run, one activity at a time.
type Recorder struct{ writing workflow.Future }

// history provides entries to record.
type history interface {
	// StartRecord starts an activity that writes the entries that are not yet on record.
	StartRecord(workflow.Context) workflow.Future
	// Recorded receives the result of that activity. After an error the next record repeats the
	// entries.
	Recorded(workflow.Context, workflow.Future) error
}

// Writing reports whether a record is being written.
func (r *Recorder) Writing() bool { return r.writing != nil }

// Write starts a record. The activity continues if the run is cancelled.
func (r *Recorder) Write(ctx workflow.Context, h history) {
	detached, _ := workflow.NewDisconnectedContext(ctx)
	r.writing = h.StartRecord(detached)
}

// Select adds the record in progress to the selector, and finishes the record once it is written.
func (r *Recorder) Select(ctx workflow.Context, selector workflow.Selector, h history) {
	if r.writing != nil {
		selector.AddFuture(r.writing, func(workflow.Future) { _ = r.finish(ctx, h) })
	}
}

// Flush waits for the record that is being written, then writes the remaining entries.
func (r *Recorder) Flush(ctx workflow.Context, h history) error {
	if r.writing != nil {
		_ = r.finish(ctx, h) // its entries are in the next record
	}
	r.writing = h.StartRecord(ctx)
	return r.finish(ctx, h)
}

func (r *Recorder) finish(ctx workflow.Context, h history) error {
	writing := r.writing
	r.writing = nil
	err := h.Recorded(ctx, writing)
	if err != nil {
		workflow.GetLogger(ctx).Error("writing a record failed; the next one repeats it", "error", err)
	}
	return err
}

// FlushInTime writes the last records of a cancelled run within at most two minutes.
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
