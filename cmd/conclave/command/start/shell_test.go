package start

import (
	"testing"

	"github.com/spf13/cobra"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/test/stage"
)

// newShell is a shell with the commands of this package.
func newShell(t *testing.T) stage.Shell {
	t.Helper()
	return stage.NewShell(t, func(c *cli.CLI) []*cobra.Command {
		return append(Commands(c), PipelineCommand(c), ScheduleCommand(c), StepCommand(c))
	})
}
