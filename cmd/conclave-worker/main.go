// Command conclave-worker is a worker process for a cluster: it runs sessions and
// their steps until it is stopped. It does the same as `conclave worker` with an
// address, without the embedded server in the binary.
//
// Temporal is found by flags, TEMPORAL_* and temporal.toml, the bucket's
// credentials and endpoint by AWS_*; teams, providers and limits are in the file
// of --worker-config. Start with command.go.
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
	os.Exit(exitCode(ctx, err))
}
