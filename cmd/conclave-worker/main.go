package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"conclave/worker/cluster"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// After the first signal the second one ends the process at once.
	context.AfterFunc(ctx, stop)
	err := command(os.Stderr).ExecuteContext(ctx)
	if err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "conclave-worker: "+cluster.Explain(err))
	}
	os.Exit(code(ctx, err))
}
