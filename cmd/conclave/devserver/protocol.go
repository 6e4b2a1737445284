package devserver

import (
	"context"
	"fmt"

	"conclave/cmd/conclave/localstack"
	"conclave/engine/coordination"

	"go.temporal.io/api/workflowservice/v1"
)

// openRuns asks for the open workflows of the namespace.
var openRuns = &workflowservice.CountWorkflowExecutionsRequest{Query: `ExecutionStatus = "Running"`}

// refuseEarlier refuses a data directory in which runs of another protocol are open: their
// histories cannot be replayed by the workflows of this program.
func (s *servers) refuseEarlier(ctx context.Context, last localstack.Stack) error {
	if last.DataDir == "" || last.Protocol == coordination.Protocol {
		return nil
	}
	c, err := s.lazyClient()
	if err != nil {
		return err
	}
	defer c.Close()
	open, err := c.CountWorkflow(ctx, openRuns)
	if err != nil {
		return fmt.Errorf("count the open runs of %s: %w", s.stack.DataDir, err)
	}
	if n := open.GetCount(); n > 0 {
		return fmt.Errorf("the data directory %s has %d open runs of another version of conclave (protocol %d, this is %d): let that version finish or cancel them, or choose another --data-dir",
			s.stack.DataDir, n, last.Protocol, coordination.Protocol)
	}
	return nil
}
