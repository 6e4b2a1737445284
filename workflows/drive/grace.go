package drive

import (
	"time"

	"go.temporal.io/sdk/workflow"
)

// AwaitCancelled waits a moment for cancelled steps to end and to report their usage;
// a lost worker reports nothing. add adds the futures of running steps to a selector
// and reports whether there are any.
func AwaitCancelled(ctx workflow.Context, add func(workflow.Selector) bool) {
	const grace = 10 * time.Second
	selector := workflow.NewSelector(ctx)
	if !add(selector) {
		return
	}
	timer, stop := workflow.WithCancel(ctx)
	defer stop()
	timeout := workflow.NewTimerWithOptions(timer, grace, workflow.TimerOptions{Summary: "for cancelled steps to end"})
	for over := false; ; {
		selector.AddFuture(timeout, func(workflow.Future) { over = true })
		selector.Select(ctx)
		if over || ctx.Err() != nil {
			return
		}
		if selector = workflow.NewSelector(ctx); !add(selector) {
			return
		}
	}
}
