package doctor

import (
	"testing"

	"github.com/spf13/cobra"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/test/stage"
	"conclave/worker/cluster"
)

// newShell is a shell with the commands of this package and without a key of histories.
func newShell(t *testing.T) stage.Shell {
	t.Helper()
	t.Setenv(cluster.KeyVariable, "")
	return stage.NewShell(t, func(c *cli.CLI) []*cobra.Command {
		return append(SandboxCommands(c), Command(c, Versions{Conclave: "conclave v1.2.3", SDK: "v1.50.0"}), ModelsCommand(c), CodecCommand(c))
	})
}
